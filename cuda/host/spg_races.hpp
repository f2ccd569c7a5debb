// spg_races.hpp: finds accesses of one address by two threads, at least one a write and at least one plain, that
// nothing orders. Part of spg_runtime.cpp, see spg_hooks.hpp.
//
// What orders, as PTX's memory model and CUDA's guide have it: a thread's own program; block barriers, __syncwarp,
// named barriers and grid.sync(), for those who take part; a launch, for what its thread knew; a grid's end, for its
// tail launches and for the next grid of its stream; release and acquire, also as a fence and an atomic or relaxed
// access beside it, cumulatively. Shuffles and votes order no memory.
//
// Time is one counter that grows at each of these events. An access is stamped with its thread and the time. What a
// thread knows of others is a set of (who, time): all that `who`, a thread, a warp, a block or a grid, did up to that
// time happened before. What members of a block have in common is kept once, with the block, and so for warps and
// grids: a barrier costs as much as it has threads, not their square. (After Flanagan and Freund, "FastTrack", PLDI
// 2009.)
//
// Of each word of 4 bytes the last plain write, the last relaxed or atomic write, two plain reads, a relaxed read and
// the last read through the read-only cache are remembered. So a race may be missed if it is between a write and one of
// several reads that nothing orders among each other, and its reader is neither the first nor the last of them.
#pragma once

#include "spg_hooks.hpp"

#include <bitset>

namespace {
namespace race {

// An access. Time 0 is none.
struct Event {
    unsigned thread = 0;
    Time time = 0;
    unsigned long long code : 48, bytes : 4, what : 12;  // where it was called; which bytes of the word
    Event() : code(0), bytes(0), what(0) {}
};
enum { plain_write, strong_write, first_read, last_read, strong_read, nc_read, kEvents };
struct Word {
    Event event[kEvents];
};
struct Page {
    Word* word = nullptr;  // when the first of them is touched
    std::bitset<hooks::kPageWords> watched;  // others in the page may be the runtime's own
};
std::unordered_map<uintptr_t, Page*> pages;
struct {
    uintptr_t number = ~(uintptr_t)0;
    Page* page = nullptr;
} recent[64];

Time now = 1, forgotten = 0;  // what is not younger than `forgotten` happened before everything that comes
struct BlockInfo {
    unsigned grid;
    uint3 index;
};
std::vector<BlockInfo> blocks;  // of this launch, by number
struct GridInfo {
    std::string name;
    dim3 block;
};
std::vector<GridInfo> grid_infos;

// What the last releases left at an address: for every acquirer, and for those of block `block`.
struct Released {
    Known everywhere, here;
    unsigned block;
};
std::unordered_map<uintptr_t, Released> released;

// What the grids of a stream did that are complete already, for the next one that comes into it.
std::map<std::pair<unsigned long long, const void*>, Known> stream_done;

struct Finding {
    std::string kernel, array, first, second, first_place, second_place, first_thread, second_thread, rule;
    long long index;
    unsigned bytes;
    bool shared;
};
std::vector<Finding> findings;
unsigned long long found;  // with those that were at the same places
std::map<std::pair<unsigned long long, unsigned long long>, bool> reported;
constexpr size_t kMaxFindings = 16;
constexpr unsigned long long kEnough = 500;  // the launch ends

inline unsigned id_of(const Thread* t) { return t->block->number << kRankBits | t->view.rank; }

Time tick()
{
    if (now == ~0u) {  // the clock is at its end: start again, everything so far is forgotten
        for (auto& p : pages)
            if (p.second->word) std::fill_n(p.second->word, hooks::kPageWords, Word());
        now = 1, forgotten = 0;
    }
    return now++;
}

inline Page* page_of(uintptr_t address)
{
    const uintptr_t number = address >> hooks::kPageBits;
    auto& seen = recent[number % 64];
    if (seen.number == number) return seen.page;
    const auto at = pages.find(number);
    if (at == pages.end()) return nullptr;
    seen.number = number, seen.page = at->second;
    return at->second;
}

// ---- memory ---------------------------------------------------------------------------------------------

void forget(uintptr_t begin, size_t bytes)
{
    if (!bytes) return;
    for (uintptr_t w = begin & ~(uintptr_t)3; w < begin + bytes; w += 4) {
        Page* const page = page_of(w);
        if (page && page->word) page->word[(w >> 2) % hooks::kPageWords] = Word();
    }
    if (!released.empty())
        for (auto at = released.begin(); at != released.end();)
            at = at->first >= begin && at->first < begin + bytes ? released.erase(at) : std::next(at);
}

void watch(uintptr_t begin, size_t bytes, bool yes)
{
    for (uintptr_t w = begin & ~(uintptr_t)3; w < begin + bytes; w += 4) {
        Page* page = page_of(w);
        if (!page) {
            if (!yes) continue;
            page = pages[w >> hooks::kPageBits] = new Page;
            recent[(w >> hooks::kPageBits) % 64] = {};
        }
        page->watched[(w >> 2) % hooks::kPageWords] = yes;
    }
    if (yes) forget(begin, bytes);
}

// ---- order ----------------------------------------------------------------------------------------------

bool known_by(const Known& k, const Event& e, unsigned grid)
{
    return k.has(of_thread | e.thread, e.time) || k.has(of_warp | e.thread >> 5, e.time) ||
           k.has(of_block | e.thread >> kRankBits, e.time) || k.has(of_grid | grid, e.time);
}

bool before(const Event& e, const Thread* t)
{
    if (e.time <= forgotten || e.thread == id_of(t)) return true;
    const Block* b = t->block;
    if (e.thread >> kRankBits == b->number) {
        if (e.time <= b->met) return true;
        if ((e.thread ^ id_of(t)) < kWarp && e.time <= t->of().met) return true;
    }
    const unsigned grid = blocks[e.thread >> kRankBits].grid;
    const Grid* g = b->grid;
    if (grid == g->number && e.time <= g->met) return true;
    const Known* sets[] = {&t->known, &t->of().known, &b->known, &g->known};
    for (const Known* k : sets)
        if (!k->empty() && known_by(*k, e, grid)) return true;
    return false;
}

// All that happened before this point of the thread, with what it did itself. What it does from now on is not in it.
Known snapshot(const Thread* t)
{
    const Block* b = t->block;
    Known k = b->grid->known;
    k.learn(b->known);
    k.learn(t->of().known);
    k.learn(t->known);
    if (b->grid->met > forgotten) k.learn(of_grid | b->grid->number, b->grid->met);
    if (b->met > forgotten) k.learn(of_block | b->number, b->met);
    if (t->of().met > b->met) k.learn(of_warp | id_of(t) >> 5, t->of().met);
    k.learn(of_thread | id_of(t), tick());
    return k;
}

void fence(Thread* t, bool block_only)
{
    t->known.learn(t->heard);
    t->heard.clear();
    (block_only ? t->fenced_here : t->fenced) = snapshot(t);
    if (!block_only) t->fenced_here = t->fenced;
}

// The releasing and acquiring parts of a relaxed or stronger access.
void synchronise(Thread* t, uintptr_t address, unsigned what)
{
    const unsigned number = t->block->number;
    if (what & SPG_READ) {
        const auto at = released.find(address);
        if (at != released.end()) {
            // A fence after the access makes an acquire of it.
            Known& to = what & SPG_ACQUIRE ? t->known : t->heard;
            if (!(what & SPG_CTA)) to.learn(at->second.everywhere);
            if (at->second.block == number) to.learn(at->second.here);
        }
    }
    if (!(what & SPG_WRITE)) return;
    Known mine = t->fenced_here, wide = t->fenced;  // a fence before the access makes a release of it
    if (what & SPG_RELEASE) {
        mine.learn(snapshot(t));
        if (!(what & SPG_CTA)) wide = mine;
    } else if (what & SPG_CTA) {
        wide.clear();
    }
    const bool chain = what & SPG_READ;  // a store ends the sequence of those before it, an atomic goes on with it
    if (mine.empty() && wide.empty()) {
        if (!chain && !released.empty()) released.erase(address);
        return;
    }
    Released& r = released[address];
    if (!chain) r.everywhere.clear();
    if (!chain || r.block != number) r.here.clear();
    r.block = number;
    r.everywhere.learn(wide);
    r.here.learn(mine);
}

// ---- events of the scheduler ----------------------------------------------------------------------------

void begin_launch()
{
    forgotten = tick();
    blocks.clear();
    grid_infos.clear();
    released.clear();
    stream_done.clear();
    findings.clear();
    reported.clear();
    found = 0;
}

void begin_grid(Grid* g)
{
    g->number = (unsigned)grid_infos.size();
    g->met = 0;
    g->aliased = hooks::has_aliases(g);
    grid_infos.push_back({g->name, g->block});
}

bool begin_block(Block* b)
{
    if (blocks.size() >= kMaxBlocks) return false;
    b->number = (unsigned)blocks.size();
    b->met = 0;
    b->known.clear();
    for (Warp& w : b->warps) {
        w.met = 0;
        w.known.clear();
    }
    blocks.push_back({b->grid->number, b->view.block_idx});
    return true;
}

void begin_thread(Thread* t)
{
    t->known.clear();
    t->heard.clear();
    t->fenced.clear();
    t->fenced_here.clear();
}

void block_barrier(Block* b)
{
    for (Warp& w : b->warps) {
        b->known.learn(w.known);
        w.known.clear();
    }
    for (unsigned i = 0; i < b->count; ++i) {
        Thread& t = b->threads[i];
        if (t.known.empty()) continue;
        b->known.learn(t.known);
        t.known.clear();
    }
    b->met = tick();
}

void grid_barrier(Grid* g)
{
    for (Block* b : live)
        if (b->grid == g) {
            block_barrier(b);
            g->known.learn(b->known);
            b->known.clear();
        }
    g->met = tick();
}

// Lanes of one warp meet at __syncwarp.
void warp_meets(Warp& w, Thread* const* lanes, unsigned here)
{
    if (here == w.alive) {
        for (unsigned i = 0; i < kWarp; ++i)
            if (here >> i & 1) {
                w.known.learn(lanes[i]->known);
                lanes[i]->known.clear();
            }
        w.met = tick();
        return;
    }
    Known all;
    const Time time = tick();
    for (unsigned i = 0; i < kWarp; ++i)
        if (here >> i & 1) {
            all.learn(lanes[i]->known);
            all.learn(of_thread | id_of(lanes[i]), time);
        }
    for (unsigned i = 0; i < kWarp; ++i)
        if (here >> i & 1) lanes[i]->known = all;
}

// Whole warps of a block meet at a named barrier.
void team_meets(const std::vector<Thread*>& team)
{
    Known all;
    const Time time = tick();
    for (Thread* t : team) {
        all.learn(t->known);
        if (t->bit() == 1 || t == team.front()) all.learn(t->of().known);
        all.learn(of_warp | id_of(t) >> 5, time);
        t->known.clear();
    }
    for (Thread* t : team) {
        t->of().known = all;
        t->of().met = time;
    }
}

// A child grid knows what its launching thread knew.
void child(Grid* g, const Thread* t) { g->known.learn(snapshot(t)); }

// `next` may begin because g is complete: with all that g and its children did.
void follow(const Grid* g, Grid* next)
{
    if (live.empty() && startable.empty()) {  // nothing runs beside it: everything so far is before everything to come
        forgotten = tick();
        next->known.clear();
        return;
    }
    next->known.learn(g->known);
    next->known.learn(g->after);
    next->known.learn(of_grid | g->number, tick());
}

void into_stream(Grid* g)
{
    const auto done = stream_done.find(g->stream);
    if (done != stream_done.end()) g->known.learn(done->second);
}

void complete(const Grid* g)
{
    if (g->in_stream) {
        Known& done = stream_done[g->stream];
        done.learn(g->after);
        done.learn(of_grid | g->number, tick());
    }
    if (!g->parent) return;
    g->parent->after.learn(g->after);
    g->parent->after.learn(of_grid | g->number, tick());
}

// ---- accesses -------------------------------------------------------------------------------------------

const char* words_of(unsigned what)
{
    const bool read = what & SPG_READ, write = what & SPG_WRITE;
    if (read && write) return "an atomic";
    if (what & SPG_READ_ONLY) return "a read through the read-only cache";
    if (!(what & SPG_STRONG)) return write ? "a plain write" : "a plain read";
    if (what & SPG_ACQUIRE) return "an acquiring read";
    if (what & SPG_RELEASE) return "a releasing write";
    return write ? "a relaxed write" : "a relaxed read";
}

std::string thread_words(unsigned thread)
{
    const BlockInfo& b = blocks[thread >> kRankBits];
    const dim3 d = grid_infos[b.grid].block;
    const unsigned rank = thread & ((1u << kRankBits) - 1);
    char text[128];
    snprintf(text, sizeof text, "thread (%u,%u,%u) of block (%u,%u,%u)", rank % d.x, rank / d.x % d.y, rank / d.x / d.y,
             b.index.x, b.index.y, b.index.z);
    return grid_infos[b.grid].name + ", " + text;
}

void report(const Event& old, const Thread* t, const void* code, unsigned what, uintptr_t address, unsigned bytes,
            const char* rule)
{
    if (++found == kEnough) set_failure(kLaunchFailure, {nullptr, 0}, "%s: data races", t->block->grid->name.c_str());
    if (findings.size() >= kMaxFindings) return;
    const unsigned long long a = old.code, b = (unsigned long long)(uintptr_t)code;
    if (reported[{a, b}] || reported[{b, a}]) return;
    reported[{a, b}] = true;
    const hooks::Place place = hooks::name_of(address, t->block->grid);
    findings.push_back({t->block->grid->name, place.array, words_of(old.what), words_of(what),
                        hooks::place_of((const void*)(uintptr_t)old.code), hooks::place_of(code),
                        thread_words(old.thread), thread_words(id_of(t)), rule, place.index, bytes, place.shared});
}

void access(Thread* t, uintptr_t address, unsigned bytes, unsigned what, const void* code)
{
    const Page* const first = page_of(address);
    if (!first || !first->watched[(address >> 2) % hooks::kPageWords]) return;
    if (what & SPG_STRONG) synchronise(t, address, what);
    const bool write = what & SPG_WRITE, strong = what & SPG_STRONG;
    const unsigned me = id_of(t);
    for (uintptr_t g = address & ~(uintptr_t)3; g < address + bytes; g += 4) {
        Page* page = page_of(g);
        if (page && !page->word) page->word = new Word[hooks::kPageWords];
        if (!page || !page->watched[(g >> 2) % hooks::kPageWords]) continue;
        Event(&e)[kEvents] = page->word[(g >> 2) % hooks::kPageWords].event;
        const unsigned low = address > g ? (unsigned)(address - g) : 0;
        const unsigned high = address + bytes < g + 4 ? (unsigned)(address + bytes - g) : 4;
        const unsigned mask = ((1u << high) - 1) & ~((1u << low) - 1);
        const uintptr_t at = g + low;
        const auto conflicts = [&](const Event& old) { return (old.bytes & mask) && !before(old, t); };
        static const char race[] = "race", nc[] = "nc", apart[] = "restrict";
        if (conflicts(e[plain_write])) report(e[plain_write], t, code, what, at, bytes, race);
        if (!strong && conflicts(e[strong_write])) report(e[strong_write], t, code, what, at, bytes, race);
        if (write) {
            for (int i = first_read; i <= nc_read; ++i)
                if ((!strong || i != strong_read) && conflicts(e[i])) report(e[i], t, code, what, at, bytes, race);
        }
        // Data that a grid reads through the read-only cache, the same grid never writes, in whatever order.
        const auto same_grid = [&](const Event& old) {
            return old.time > forgotten && (old.bytes & mask) &&
                   blocks[old.thread >> kRankBits].grid == t->block->grid->number;
        };
        if (what & SPG_READ_ONLY) {
            for (int i = plain_write; i <= strong_write; ++i)
                if (same_grid(e[i])) report(e[i], t, code, what, at, bytes, nc);
        } else if (write && same_grid(e[nc_read])) {
            report(e[nc_read], t, code, what, at, bytes, nc);
        }
        if (t->block->grid->aliased && !strong && !(what & SPG_READ_ONLY)) {
            const int from = write ? first_read : plain_write, to = write ? last_read : strong_write;
            for (int i = from; i <= to; ++i)
                if (same_grid(e[i]) && hooks::promised_apart(t->block->grid, at))
                    report(e[i], t, code, what, at, bytes, apart);
        }
        Event mine;
        mine.thread = me;
        mine.time = now;
        mine.code = (unsigned long long)(uintptr_t)code & ((1ull << 48) - 1);
        mine.bytes = mask & 15;
        mine.what = what & 0xfff;
        const auto keep = [&](Event& slot) {  // parts of a word that one thread touches are kept together
            if (slot.thread == me && slot.time == mine.time && slot.what == mine.what) mine.bytes |= slot.bytes;
            slot = mine;
        };
        if (write) {
            keep(e[strong ? strong_write : plain_write]);
        } else if (strong) {
            keep(e[strong_read]);
        } else {
            if (what & SPG_READ_ONLY) keep(e[nc_read]);
            keep(e[before(e[first_read], t) ? first_read : last_read]);
        }
    }
}

}  // namespace race
}  // namespace
