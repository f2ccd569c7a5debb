// spg_scheduler.hpp: who waits for whom, and who runs next. Part of spg_runtime.cpp.
#pragma once

#include "spg_fibers.hpp"
#ifdef SPG_HOOKS
#include "spg_notify.hpp"
#endif

namespace {

// ---- waiting --------------------------------------------------------------------------------------------

void make_ready(Thread* t)
{
    t->wait = Wait::none;
    ready.push_back(t);
}

// Odd seeds draw among those that are ready. Even ones let the warp of highest priority go on for as long as it can,
// so that another may stand still while this one goes through many levels or tiles: what a missing barrier needs to
// show. Priorities are drawn, and drawn again now and then (Burckhardt and others, "A randomized scheduler with
// probabilistic guarantees of finding bugs", ASPLOS 2010).
size_t choose_ready()
{
    const size_t some = draw(ready.size());
    if (seed & 1) return some;
    size_t best = some;
    for (size_t i = 0; i < ready.size(); ++i)
        if (ready[i]->of().priority > ready[best]->of().priority) best = i;
    if (draw(256) == 0) ready[best]->of().priority = draw(kPriorities);
    return best;
}

Thread* next_ready()
{
    if (seed && ready.size() > 1) std::swap(ready.front(), ready[choose_ready()]);
    Thread* t = ready.front();
    ready.pop_front();
    return t;
}

// Gives the CPU away until another thread makes this one ready.
void dispatch()
{
    if (!failure && !ready.empty()) {
        Thread* t = next_ready();
        if (t->fiber == current) return;
        switch_to(t->fiber);
    } else {
        switch_to(&scheduler);
    }
}

bool same(spg_site a, spg_site b) { return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0); }

void release_barrier(Block* b)
{
    ++device->barriers;
    Thread* t = b->barrier;
    if (b->ended && device->strict) {
        set_failure(kLaunchFailure, t->site, "%s: %u of %u threads of %s never reached %s(): they had returned",
                    b->grid->name.c_str(), b->ended, b->count, block_name(b).c_str(), t->what);
        return;
    }
    SPG_TELL(notify::block_barrier(b);)
    const unsigned predicates = b->predicates, arrived = b->waiting;
    b->barrier = nullptr;
    b->waiting = b->predicates = 0;
    Thread* reversed = nullptr;  // the list is last in, first out; release in order of arrival
    while (t) {
        Thread* next = t->next;
        t->next = reversed;
        reversed = t;
        t = next;
    }
    for (t = reversed; t; t = reversed) {
        reversed = t->next;
        t->result = predicates;
        t->arrived = arrived;
        make_ready(t);
    }
}

void check_barrier(Block* b)
{
    if (b->waiting && b->waiting + b->ended == b->count) release_barrier(b);
}

void check_grid_barrier(Grid* g)
{
    const unsigned long long threads = g->blocks * (g->block.x * g->block.y * g->block.z);
    unsigned long long ended = 0;
    if (!g->waiting || g->begun < g->blocks) return;
    ended = g->ended * (g->block.x * g->block.y * g->block.z);
    for (Block* b : live)
        if (b->grid == g) ended += b->ended;
    if (g->waiting + ended != threads) return;
    Thread* t = g->barrier;
    if (ended) {
        set_failure(kLaunchFailure, t->site, "%s: %llu of %llu threads never reached grid.sync(): they had returned",
                    g->name.c_str(), ended, threads);
        return;
    }
    ++device->barriers;
    SPG_TELL(notify::grid_barrier(g);)
    g->barrier = nullptr;
    g->waiting = 0;
    while (t) {
        Thread* next = t->next;
        make_ready(t);
        t = next;
    }
}

void finish_meeting(Meeting& m)
{
    for (unsigned i = 0; i < kWarp; ++i) {
        if (!(m.here >> i & 1)) continue;
        spg_lane* mine = m.lanes[i]->lane;
        mine->present = m.here;
        unsigned long long out = 0;
        switch (m.op) {
        case SPG_WARP_SYNC: break;
        case SPG_WARP_SHUFFLE:
            fill_with_junk(&out, sizeof out);
            if (m.here >> mine->source & 1) out = m.lanes[mine->source]->lane->in;
            break;
        case SPG_WARP_BALLOT:
        case SPG_WARP_MATCH:
            for (unsigned j = 0; j < kWarp; ++j)
                if (m.here >> j & 1) {
                    const unsigned long long in = m.lanes[j]->lane->in;
                    out |= (unsigned long long)(m.op == SPG_WARP_BALLOT ? in != 0 : in == mine->in) << j;
                }
            break;
        case SPG_WARP_GATHER:
            for (unsigned j = 0; j < kWarp; ++j)
                if (m.here >> j & 1) mine->all[j] = m.lanes[j]->lane->in;
            break;
        }
        mine->out = out;
    }
}

// Completes meetings of which all lanes that still live have come. `me` goes on by itself.
void check_meetings(Warp& w, Thread* me)
{
    for (size_t i = 0; i < w.meetings.size();) {
        Meeting& m = w.meetings[i];
        if (m.here != (m.mask & w.alive)) {
            ++i;
            continue;
        }
        SPG_TELL(notify::meeting(w, m);)
        finish_meeting(m);
        for (unsigned j = 0; j < kWarp; ++j)
            if (m.here >> j & 1 && m.lanes[j] != me) make_ready(m.lanes[j]);
        w.meetings.erase(w.meetings.begin() + i);
    }
}

void finish_active(Thread* first)
{
    // Lanes of one warp at one place in the source; a seed may split them, as a GPU may.
    unsigned mask = 0;
    std::vector<Thread*> group;
    for (size_t i = 0; i < converging.size();) {
        Thread* t = converging[i];
        if (t->block == first->block && t->warp() == first->warp() && same(t->site, first->site) &&
            (t == first || !seed || draw(4))) {
            mask |= t->bit();
            group.push_back(t);
            converging.erase(converging.begin() + i);
        } else {
            ++i;
        }
    }
    for (Thread* t : group) {
        t->result = mask;
        make_ready(t);
    }
}

// ---- blocks and grids -----------------------------------------------------------------------------------

void free_shared(SharedSet* set)
{
    for (SharedArray& a : set->arrays) {
        SPG_TELL(notify::freed(a.memory);)
        free(a.memory);
    }
    SPG_TELL(if (set->dynamic) notify::freed(set->dynamic);)
    free(set->dynamic);
    delete set;
}

void enqueue(Grid* g) { startable.push_back(g); }

// Follows completion up the tree of grids; a loop, since tails may chain thousands deep.
void complete(Grid* g)
{
    while (g && g->ended == g->blocks && !g->open_children) {
        if (!g->tails.empty()) {
            Grid* tail = g->tails.front();
            g->tails.pop_front();
            SPG_TELL(notify::follow(g, tail);)
            ++g->open_children;
            enqueue(tail);
            return;
        }
        if (g->in_stream) {
            auto at = streams.find(g->stream);
            if (at != streams.end() && at->second == g) streams.erase(at);
            if (g->successor) {
                SPG_TELL(notify::follow(g, g->successor);)
                enqueue(g->successor);
            }
        }
        SPG_TELL(notify::complete(g);)
        for (SharedSet* set : g->free_shared) free_shared(set);
        Grid* parent = g->parent;
        grids[g->slot] = grids.back();
        grids[g->slot]->slot = g->slot;
        grids.pop_back();
        delete g;
        if (parent) --parent->open_children;
        g = parent;
    }
}

void start_block(Grid* g)  // the first of startable
{
    if (g->begun == 0 && g->parent) --pending;
    // Seeds shuffle all blocks of a grid. GPUs start them in about their order, but that is not promised: a kernel
    // whose blocks wait for lower ones, many of which cannot be live together, waits forever here.
    const unsigned long long at = g->begun++;
    if (at == 0) shuffle(g->blocks, g->start, g->step);
    const unsigned long long linear = (g->start + at * g->step) % g->blocks;
    if (g->begun == g->blocks) startable.pop_front();
    Block* b;
    if (spare.empty())
        b = new Block;
    else
        b = spare.back(), spare.pop_back();
    b->view.block_idx = uint3{unsigned(linear % g->grid.x), unsigned(linear / g->grid.x % g->grid.y),
                              unsigned(linear / g->grid.x / g->grid.y)};
    b->view.block_dim = g->block;
    b->view.grid_dim = g->grid;
    b->grid = g;
    b->count = g->block.x * g->block.y * g->block.z;
    b->begun = b->ended = b->waiting = b->predicates = 0;
    b->barrier = nullptr;
    b->named.clear();
    b->serial = ++serials;
    unsigned long long start, step;
    shuffle(b->count, start, step);
    b->start = start, b->step = step;
    if (b->threads.size() < b->count) b->threads.resize(b->count);
    b->warps.resize((b->count + kWarp - 1) / kWarp);
    for (unsigned w = 0; w < b->warps.size(); ++w) {
        const unsigned lanes = b->count - w * kWarp;
        b->warps[w].alive = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
        b->warps[w].priority = seed ? draw(kPriorities) : 0;
        b->warps[w].meetings.clear();
    }
    if (g->free_shared.empty()) {
        b->shared = new SharedSet;
        if (g->shared) {
            // Exact size: AddressSanitizer's red zone begins where the launch's bytes end.
            if (posix_memalign((void**)&b->shared->dynamic, 16, g->shared)) abort();
            fill_with_junk(b->shared->dynamic, g->shared);
            SPG_TELL(notify::memory(b->shared->dynamic, g->shared, true, "dynamic shared memory", 1);)
        }
    } else {
        b->shared = g->free_shared.back();
        g->free_shared.pop_back();
        for (SharedArray& a : b->shared->arrays) {
            fill_with_junk(a.memory, a.bytes);
            SPG_TELL(notify::reused(a.memory, a.bytes);)
        }
        if (g->shared) {
            fill_with_junk(b->shared->dynamic, g->shared);
            SPG_TELL(notify::reused(b->shared->dynamic, g->shared);)
        }
    }
    SPG_TELL(if (!notify::begin_block(b))
                 set_failure(kTooLarge, {nullptr, 0},
                             "%s: more blocks in a launch than this mode can tell apart (4,194,303)", g->name.c_str());)
    live.push_back(b);
    live_threads += b->count;
    fresh.push_back(b);
}

void end_block(Block* b)
{
    Grid* g = b->grid;
    g->free_shared.push_back(b->shared);
    live_threads -= b->count;
    for (size_t i = 0; i < live.size(); ++i)
        if (live[i] == b) {
            live[i] = live.back();
            live.pop_back();
            break;
        }
    spare.push_back(b);
    ++g->ended;
    complete(g);
}

Thread* begin_thread(Block* b)
{
    const unsigned rank = unsigned((b->start + (unsigned long long)b->begun * b->step) % b->count);
    if (++b->begun == b->count)
        for (size_t i = 0; i < fresh.size(); ++i)
            if (fresh[i] == b) {
                fresh.erase(fresh.begin() + i);
                break;
            }
    Thread* t = &b->threads[rank];
    const dim3 d = b->view.block_dim;
    t->view.thread_idx = d.y * d.z == 1 ? uint3{rank, 0, 0} : uint3{rank % d.x, rank / d.x % d.y, rank / d.x / d.y};
    t->view.rank = rank;
    t->view.block = &b->view;
    t->block = b;
    t->fiber = current;
    t->spins = 0;
    t->error = 0;
    t->wait = Wait::none;
    current->thread = t;
    spg_self = &t->view;
    SPG_TELL(notify::begin_thread(t);)
    return t;
}

void end_thread(Thread* t)
{
    Block* b = t->block;
    SPG_TELL(notify::end_thread(t);)
    current->thread = nullptr;
    spg_self = nullptr;
    ++b->ended;
    Warp& w = b->warps[t->warp()];
    w.alive &= ~t->bit();
    if (!w.meetings.empty()) check_meetings(w, nullptr);
    if (b->ended == b->count) {
        current->block = nullptr;
        end_block(b);
    } else {
        check_barrier(b);
        if (b->grid->waiting) check_grid_barrier(b->grid);
    }
}

void fiber_main()
{
    arrive();
    for (;;) {
        while (Block* b = current->block) {
            if (b->begun == b->count || failure) break;
            Thread* t = begin_thread(b);
            b->grid->call(b->grid->kernel, b->grid->arguments);
            end_thread(t);
        }
        current->block = nullptr;
        idle.push_back(current);
        switch_to(&scheduler);
    }
}

void report_standstill()
{
    for (Block* b : live) {
        if (b->waiting) {
            unsigned elsewhere = b->count - b->waiting - b->ended;
            Thread* other = nullptr;
            for (unsigned i = 0; i < b->count && !other; ++i)
                if (b->threads[i].wait != Wait::barrier && b->threads[i].wait != Wait::none) other = &b->threads[i];
            set_failure(kLaunchFailure, b->barrier->site, "%s: %u of %u threads of %s never reached %s()%s%s%s",
                        b->grid->name.c_str(), elsewhere + b->ended, b->count, block_name(b).c_str(), b->barrier->what,
                        other ? ": some wait at " : "", other ? other->what : "", other ? at(other->site).c_str() : "");
            return;
        }
    }
    for (Block* b : live)
        for (size_t w = 0; w < b->warps.size(); ++w)
            for (Meeting& m : b->warps[w].meetings) {
                Thread* first = m.lanes[__builtin_ctz(m.here)];
                const unsigned missing = m.mask & b->warps[w].alive & ~m.here;
                set_failure(kLaunchFailure, first->site,
                            "%s: lanes 0x%08x of warp %zu of %s never reached %s with mask 0x%08x",
                            b->grid->name.c_str(), missing, w, block_name(b).c_str(), m.what, m.mask);
                return;
            }
    for (Block* b : live)
        for (const NamedBarrier& n : b->named)
            if (!n.here.empty()) {
                set_failure(kLaunchFailure, n.here[0]->site, "%s: only %zu of %u threads of %s reached barrier %d",
                            b->grid->name.c_str(), n.here.size(), n.threads, block_name(b).c_str(), n.name);
                return;
            }
    for (Grid* g : grids)
        if (g->waiting) {
            set_failure(kLaunchFailure, g->barrier->site, "%s: only %u of %llu threads reached grid.sync()",
                        g->name.c_str(), g->waiting, g->blocks * (g->block.x * g->block.y * g->block.z));
            return;
        }
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: its threads wait for something that never comes",
                live.empty() ? "launch" : live[0]->grid->name.c_str());
}

Grid* next_grid()
{
    if (startable.empty()) return nullptr;
    if (seed) std::swap(startable.front(), startable[draw(startable.size())]);
    Grid* g = startable.front();
    const unsigned threads = g->block.x * g->block.y * g->block.z;
    return live_threads == 0 || live_threads + threads <= limits.live ? g : nullptr;
}

void run_all()
{
    scheduler.started = true;  // it runs on the caller's stack
    while (!failure) {
        if (!ready.empty()) {
            switch_to(next_ready()->fiber);
        } else if (!fresh.empty()) {
            Fiber* fiber = take_fiber();
            if (!fiber) {
                set_failure(kMemoryAllocation, {nullptr, 0}, "no memory for the stacks of %u threads", live_threads);
                break;
            }
            fiber->block = fresh.back();
            switch_to(fiber);
        } else if (!converging.empty()) {
            finish_active(converging[seed ? draw(converging.size()) : 0]);
        } else if (Grid* g = next_grid()) {
            start_block(g);
        } else if (!spinning.empty()) {
            ready.swap(spinning);
        } else if (live.empty()) {
            break;
        } else {
            report_standstill();
        }
    }
}

// After a failure: forget every thread, block and grid; stacks in use start afresh.
void clean_up()
{
    ready.clear(), spinning.clear(), converging.clear(), fresh.clear(), startable.clear(), streams.clear();
    idle.clear();
    for (Fiber* f : fibers) {
        f->started = false;
        f->thread = nullptr;
        f->block = nullptr;
        f->fake = nullptr;
#ifdef SPG_ASAN
        __asan_unpoison_memory_region(f->stack, f->bytes);
#endif
        idle.push_back(f);
    }
    for (Block* b : live) {
        free_shared(b->shared);
        delete b;
    }
    live.clear();
    for (Grid* g : grids) {
        for (SharedSet* set : g->free_shared) free_shared(set);
        delete g;
    }
    grids.clear();
    live_threads = 0;
    pending = 0;
}

}  // namespace
