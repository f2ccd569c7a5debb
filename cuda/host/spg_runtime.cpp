// spg_runtime.cpp: runs CUDA-style grids on one CPU thread, exactly and repeatably.
//
// Every CUDA thread that has to wait gets a fiber (its own stack); one that never waits runs to its end on
// whatever fiber is at hand, and the next thread starts on that same fiber. So a kernel without barriers is a
// plain loop over threads, and nothing has to know in advance which kind a kernel is.
//
// The scheduler runs, in this order: threads that were released; threads of started blocks that have not begun;
// lanes waiting in __activemask (who is here counts as converged); a new block of any grid that may start;
// threads that spin. If none is left and threads wait, they wait for ever: that is reported, naming the barrier.
// A seed other than 0 shuffles blocks, threads, released threads and child grids; 0 is the natural order.
//
// What it is stricter in than a GPU (because each is undefined there and wrong on some GPU):
//   - a thread that returned before a block barrier that its block reaches: an error (spg_device.strict = 0 allows it)
//   - a block's threads meeting at different barriers in the source: an error (likewise)
//   - lanes in a warp collective that name different operations, or a mask without the caller
//   - reading from a lane that takes no part gives junk; shared memory starts as junk
// What it does not see: data races (threads switch only where they wait or yield), spins that contain no atomic,
// fence, sleep or clock (those never end, as the spinner is never interrupted).
#include "spg_runtime.hpp"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SPG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPG_ASAN 1
#endif
#endif
#ifdef SPG_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SPG_NO_ASAN __attribute__((no_sanitize_address))
#else
#define SPG_NO_ASAN
#endif
#define SPG_NOINLINE __attribute__((noinline))
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kJunk = 0xCD;
constexpr unsigned kWarp = 32;
// Threads alive at once: 4 multiprocessors of 2,048. A cooperative grid has to fit, as on a GPU.
constexpr unsigned kMaxLive = 4 * 2048;
constexpr size_t kStaticShared = 48 << 10, kMaxShared = 227 << 10;
#ifdef SPG_ASAN
constexpr size_t kStack = 256 << 10;  // instrumented frames are larger
#else
constexpr size_t kStack = 64 << 10;
#endif
constexpr unsigned kSpinsBeforeYield = 64;  // a loop of atomics is mostly work; a spin gets here soon enough

// CUDA's numbers
constexpr int kInvalidConfiguration = 9, kLaunchFailure = 719, kTooLarge = 720, kPendingExceeded = 69;
constexpr int kMemoryAllocation = 2;

struct Grid;
struct Block;
struct Thread;

struct Fiber {
    void* jump[5];
    char* stack = nullptr;
    size_t bytes = 0;
    void* fake = nullptr;  // ASan's shadow of this stack while it is switched out
    Thread* thread = nullptr;
    Block* block = nullptr;
    bool started = false;
};

enum class Wait : unsigned char { none, barrier, grid, warp, active };

struct Thread {
    spg_thread_view view;
    Fiber* fiber;
    Block* block;
    Thread* next;  // in one list of waiting threads
    const char* what;
    spg_site site;
    spg_lane* lane;
    unsigned mask, result, arrived, spins;
    int error;
    Wait wait;
    unsigned warp() const { return view.rank / kWarp; }
    unsigned bit() const { return 1u << view.rank % kWarp; }
};

// A warp collective that some lanes have reached.
struct Meeting {
    unsigned mask, here;
    spg_warp_op op;
    const char* what;
    Thread* lanes[kWarp];
};

struct Warp {
    unsigned alive;
    std::vector<Meeting> meetings;
};

struct SharedArray {
    const void* declaration;
    char* memory;
    size_t bytes;
};

// The shared memory of one live block, reused by a later block of the same grid.
struct SharedSet {
    std::vector<SharedArray> arrays;
    char* dynamic = nullptr;
    size_t fixed_bytes = 0;
};

struct Block {
    spg_block_view view;
    Grid* grid;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    unsigned count, begun, ended, waiting, predicates;
    unsigned start, step;  // the order in which threads begin: (start + i * step) mod count
    Thread* barrier;
    SharedSet* shared;
    unsigned long long serial;
};

struct Grid {
    std::string name;
    spg_call call;
    void* kernel;
    void** arguments;
    std::vector<char> storage;
    std::vector<void*> pointers;
    dim3 grid, block;
    size_t shared = 0;
    bool cooperative = false;
    unsigned long long blocks = 0, begun = 0, ended = 0, start = 0, step = 1;
    unsigned waiting = 0;
    Thread* barrier = nullptr;
    std::vector<SharedSet*> free_shared;
    // Children: a grid is complete when its blocks have ended, its children are complete, and then its tails.
    Grid* parent = nullptr;
    unsigned long long open_children = 0;
    std::deque<Grid*> tails;
    Grid* successor = nullptr;  // next in the same device-side stream
    std::pair<unsigned long long, const void*> stream{0, nullptr};
    bool in_stream = false;
};


pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
spg_device* device;  // of the launch that is running
unsigned long long seed, random_state, pending;
size_t heap_used;
std::unordered_map<void*, size_t> heap;

Fiber scheduler;
Fiber *current = &scheduler, *previous = nullptr;
std::vector<Fiber*> idle, fibers;
std::deque<Thread*> ready, spinning, converging;
std::vector<Block*> fresh;  // started blocks with threads that have not begun
std::vector<Block*> live, spare;
std::deque<Grid*> startable;
std::vector<Grid*> grids;  // all that are not complete
std::map<std::pair<unsigned long long, const void*>, Grid*> streams;
unsigned live_threads;
unsigned long long serials;

int failure;
char message[1024];
char failure_place[512];

unsigned long long draw(unsigned long long below)  // splitmix64
{
    unsigned long long z = (random_state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (z ^ (z >> 31)) % below;
}

// A cheap permutation of n things: (start + i * step) mod n with step coprime to n.
void shuffle(unsigned long long n, unsigned long long& start, unsigned long long& step)
{
    start = 0, step = 1;
    if (!seed || n < 2) return;
    start = draw(n);
    do step = 1 + draw(n - 1);
    while (std::gcd(step, n) != 1);
}

// ---- fibers ---------------------------------------------------------------------------------------------

void fiber_main();

SPG_NO_ASAN SPG_NOINLINE void jump_to(Fiber* to)
{
    if (!to->started) {
        static ucontext_t context;
        to->started = true;
        getcontext(&context);
        context.uc_stack.ss_sp = to->stack;
        context.uc_stack.ss_size = to->bytes;
        context.uc_link = nullptr;
        makecontext(&context, fiber_main, 0);
        setcontext(&context);
    }
    __builtin_longjmp(to->jump, 1);
}

SPG_NO_ASAN inline void arrive()
{
#ifdef SPG_ASAN
    const void* bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(current->fake, &bottom, &bytes);
    if (previous == &scheduler) scheduler.stack = (char*)bottom, scheduler.bytes = bytes;
#endif
    spg_self = current->thread ? &current->thread->view : nullptr;
}

// Returns when something switches back. Nothing local lives across the jump but what `current` leads to.
SPG_NO_ASAN SPG_NOINLINE void switch_to(Fiber* to)
{
#ifdef SPG_ASAN
    __sanitizer_start_switch_fiber(&current->fake, to->stack, to->bytes);
#endif
    if (__builtin_setjmp(current->jump) == 0) {
        previous = current;
        current = to;
        jump_to(to);
    }
    arrive();
}

Fiber* take_fiber()
{
    if (idle.empty()) {
        const size_t page = sysconf(_SC_PAGESIZE);
        char* base = (char*)mmap(nullptr, kStack + page, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (base == MAP_FAILED) return nullptr;
        mprotect(base, page, PROT_NONE);  // stacks grow down into the guard
        Fiber* fiber = new Fiber;
        fiber->stack = base + page;
        fiber->bytes = kStack;
        fibers.push_back(fiber);
        return fiber;
    }
    Fiber* fiber = idle.back();
    idle.pop_back();
    return fiber;
}

// ---- failing --------------------------------------------------------------------------------------------

Thread* self() { return (Thread*)spg_self; }

void set_failure(int code, spg_site site, const char* format, ...)
{
    if (failure) return;
    failure = code;
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (site.file && site.line) snprintf(failure_place, sizeof failure_place, "%s:%d", site.file, site.line);
    else failure_place[0] = 0;
}

// Leaves the failing thread for good: the scheduler throws all its fibers' stacks away.
[[noreturn]] void abandon()
{
    switch_to(&scheduler);
    __builtin_unreachable();
}

std::string block_name(const Block* b)
{
    char text[64];
    const uint3 i = b->view.block_idx;
    snprintf(text, sizeof text, "block (%u,%u,%u)", i.x, i.y, i.z);
    return text;
}

std::string thread_name(const Thread* t)
{
    char text[64];
    const uint3 i = t->view.thread_idx;
    snprintf(text, sizeof text, "thread (%u,%u,%u) of ", i.x, i.y, i.z);
    return text + block_name(t->block);
}

std::string at(spg_site site)
{
    const char* slash = site.file ? strrchr(site.file, '/') : nullptr;
    return site.line ? std::string(" (") + (slash ? slash + 1 : site.file) + ":" + std::to_string(site.line) + ")" : "";
}

// ---- waiting --------------------------------------------------------------------------------------------

void make_ready(Thread* t)
{
    t->wait = Wait::none;
    ready.push_back(t);
}

Thread* next_ready()
{
    if (seed && ready.size() > 1) std::swap(ready.front(), ready[draw(ready.size())]);
    Thread* t = ready.front();
    ready.pop_front();
    return t;
}

// Gives the CPU away until somebody makes this thread ready.
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

bool same(spg_site a, spg_site b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void release_barrier(Block* b)
{
    ++device->barriers;
    Thread* t = b->barrier;
    if (b->ended && device->strict) {
        set_failure(kLaunchFailure, t->site, "%s: %u of %u threads of %s never reached %s(): they had returned",
                    b->grid->name.c_str(), b->ended, b->count, block_name(b).c_str(), t->what);
        return;
    }
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
            memset(&out, kJunk, sizeof out);
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
    for (SharedArray& a : set->arrays) free(a.memory);
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
            ++g->open_children;
            enqueue(tail);
            return;
        }
        if (g->in_stream) {
            auto at = streams.find(g->stream);
            if (at != streams.end() && at->second == g) streams.erase(at);
            if (g->successor) enqueue(g->successor);
        }
        for (SharedSet* set : g->free_shared) free_shared(set);
        Grid* parent = g->parent;
        for (size_t i = grids.size(); i-- > 0;)
            if (grids[i] == g) {
                grids[i] = grids.back();
                grids.pop_back();
                break;
            }
        delete g;
        if (parent) --parent->open_children;
        g = parent;
    }
}

void start_block(Grid* g)
{
    if (g->begun == 0 && g->parent) --pending;
    const unsigned long long linear = (g->start + g->begun++ * g->step) % g->blocks;
    if (g->begun == g->blocks)
        for (size_t i = 0; i < startable.size(); ++i)
            if (startable[i] == g) {
                startable.erase(startable.begin() + i);
                break;
            }
    Block* b;
    if (spare.empty()) b = new Block;
    else b = spare.back(), spare.pop_back();
    b->view.block_idx = uint3{unsigned(linear % g->grid.x), unsigned(linear / g->grid.x % g->grid.y),
                              unsigned(linear / g->grid.x / g->grid.y)};
    b->view.block_dim = g->block;
    b->view.grid_dim = g->grid;
    b->grid = g;
    b->count = g->block.x * g->block.y * g->block.z;
    b->begun = b->ended = b->waiting = b->predicates = 0;
    b->barrier = nullptr;
    b->serial = ++serials;
    unsigned long long start, step;
    shuffle(b->count, start, step);
    b->start = start, b->step = step;
    if (b->threads.size() < b->count) b->threads.resize(b->count);
    b->warps.resize((b->count + kWarp - 1) / kWarp);
    for (unsigned w = 0; w < b->warps.size(); ++w) {
        const unsigned lanes = b->count - w * kWarp;
        b->warps[w].alive = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
        b->warps[w].meetings.clear();
    }
    if (g->free_shared.empty()) {
        b->shared = new SharedSet;
        if (g->shared) {
            // Exact size: AddressSanitizer's red zone begins where the launch's bytes end.
            if (posix_memalign((void**)&b->shared->dynamic, 16, g->shared)) abort();
            memset(b->shared->dynamic, kJunk, g->shared);
        }
    } else {
        b->shared = g->free_shared.back();
        g->free_shared.pop_back();
        for (SharedArray& a : b->shared->arrays) memset(a.memory, kJunk, a.bytes);
        if (g->shared) memset(b->shared->dynamic, kJunk, g->shared);
    }
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
    const unsigned rank = b->begun < b->count ? unsigned((b->start + (unsigned long long)b->begun * b->step) % b->count) : 0;
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
    return t;
}

void end_thread(Thread* t)
{
    Block* b = t->block;
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
                set_failure(kLaunchFailure, first->site, "%s: lanes 0x%08x of warp %zu of %s never reached %s with mask 0x%08x",
                            b->grid->name.c_str(), missing, w, block_name(b).c_str(), m.what, m.mask);
                return;
            }
    for (Grid* g : grids)
        if (g->waiting) {
            set_failure(kLaunchFailure, g->barrier->site, "%s: only %u of %llu threads reached grid.sync()", g->name.c_str(),
                        g->waiting, g->blocks * (g->block.x * g->block.y * g->block.z));
            return;
        }
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: its threads wait for something that never comes",
                live.empty() ? "launch" : live[0]->grid->name.c_str());
}

Grid* next_grid()
{
    if (startable.empty()) return nullptr;
    Grid* g = startable[seed ? draw(startable.size()) : 0];
    const unsigned threads = g->block.x * g->block.y * g->block.z;
    return live_threads == 0 || live_threads + threads <= kMaxLive ? g : nullptr;
}

void run_all()
{
    scheduler.started = true;  // it runs on the stack of whoever called
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

// ---- faults ---------------------------------------------------------------------------------------------

[[maybe_unused]] void on_fault(int signal, siginfo_t* info, void*)
{
    if (current == &scheduler) {  // not in a kernel: the runtime's own fault must be seen as such
        ::signal(signal, SIG_DFL);
        return;
    }
    Thread* t = current->thread;
    const char* address = (const char*)info->si_addr;
    const bool overflow = address < current->stack && address >= current->stack - (64 << 10);
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: %s in %s", t ? t->block->grid->name.c_str() : "kernel",
                signal == SIGFPE ? "integer division by zero"
                : signal == SIGILL ? "undefined behaviour (trap)"
                : overflow ? "stack overflow (64 KB a thread)" : "invalid memory access",
                t ? thread_name(t).c_str() : "?");
    previous = current;
    current = &scheduler;
    __builtin_longjmp(scheduler.jump, 1);
}

struct FaultGuard {
#ifndef SPG_ASAN  // AddressSanitizer has its own
    static constexpr int signals[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction old[4];
    stack_t old_stack;
    static inline char alternate[64 << 10];
    FaultGuard()
    {
        stack_t stack{};
        stack.ss_sp = alternate;
        stack.ss_size = sizeof alternate;
        sigaltstack(&stack, &old_stack);
        struct sigaction action{};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < 4; ++i) sigaction(signals[i], &action, &old[i]);
    }
    ~FaultGuard()
    {
        for (int i = 0; i < 4; ++i) sigaction(signals[i], &old[i], nullptr);
        sigaltstack(&old_stack, nullptr);
    }
#endif
};

#ifdef SPG_ASAN
// The report's first lines and its first frame become the launch's failure; the launch stops at the next switch.
void on_report(const char* report)
{
    if (failure) return;
    const char* kind = strstr(report, "AddressSanitizer: ");
    kind = kind ? kind + 18 : "memory error";
    const int kind_length = (int)strcspn(kind, " \n");
    const char* access = strstr(report, "\nREAD of size ");
    if (!access) access = strstr(report, "\nWRITE of size ");
    const int access_length = access ? (int)strcspn(access + 1, "\n") : 0;
    std::string place;
    if (const char* frame = strstr(report, "#0 "))
        if (const char* in = strstr(frame, " in ")) {
            std::string line(in + 4, strcspn(in + 4, "\n"));
            const size_t space = line.rfind(' ');
            if (space != std::string::npos) place = line.substr(space + 1);
        }
    const char* where = strstr(report, " is located ");
    const int where_length = where ? (int)strcspn(where, "\n") : 0;
    Thread* t = current->thread;
    int access_words = access_length;
    if (access)
        if (const char* by = strstr(access, " at 0x")) access_words = (int)(by - access - 1);
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: %.*s, %.*s by %s;%.*s", t ? t->block->grid->name.c_str() : "runtime",
                kind_length, kind, access_words, access ? access + 1 : "", t ? thread_name(t).c_str() : "the host",
                where_length, where ? where + 3 : "");
    // "/path/x.cu:12:3": keep file and line
    size_t colon = place.find(':');
    if (colon != std::string::npos) {
        size_t end = place.find(':', colon + 1);
        snprintf(failure_place, sizeof failure_place, "%s", place.substr(0, end).c_str());
    }
}
#endif

}  // namespace

__attribute__((visibility("default"))) spg_thread_view* spg_self = nullptr;  // extern "C" by its declaration

// ---- called by kernels ----------------------------------------------------------------------------------

EXPORT void* spg_shared(const void* declaration, size_t bytes, size_t align)
{
    SharedSet* set = self()->block->shared;
    for (SharedArray& a : set->arrays)
        if (a.declaration == declaration) return a.memory;
    if ((set->fixed_bytes += bytes) > kStaticShared) {
        set_failure(kInvalidConfiguration, {nullptr, 0}, "%s: %zu bytes of static shared memory, more than %zu",
                    self()->block->grid->name.c_str(), set->fixed_bytes, kStaticShared);
        abandon();
    }
    char* memory;
    if (posix_memalign((void**)&memory, align < 16 ? 16 : align, bytes)) abort();
    memset(memory, kJunk, bytes);
    set->arrays.push_back({declaration, memory, bytes});
    return memory;
}

EXPORT void* spg_dynamic_shared()
{
    Thread* t = self();
    if (!t->block->shared->dynamic) {
        static char nothing;  // zero bytes were asked for; the address is valid, an access is not
        return &nothing + 1;
    }
    return t->block->shared->dynamic;
}

EXPORT size_t spg_dynamic_shared_bytes() { return self()->block->grid->shared; }

EXPORT unsigned spg_barrier(const char* what, int predicate, unsigned* arrived, spg_site site)
{
    Thread* t = self();
    Block* b = t->block;
    t->spins = 0;
    if (b->barrier && device->strict && (strcmp(b->barrier->what, what) || !same(b->barrier->site, site))) {
        set_failure(kLaunchFailure, site, "%s: threads of %s meet at different barriers: %s()%s and %s()%s",
                    b->grid->name.c_str(), block_name(b).c_str(), b->barrier->what, at(b->barrier->site).c_str(), what,
                    at(site).c_str());
        abandon();
    }
    t->what = what;
    t->site = site;
    t->wait = Wait::barrier;
    t->next = b->barrier;
    b->barrier = t;
    ++b->waiting;
    b->predicates += predicate != 0;
    check_barrier(b);
    dispatch();
    t = self();
    if (arrived) *arrived = t->arrived;
    return t->result;
}

EXPORT void spg_grid_barrier(spg_site site)
{
    Thread* t = self();
    Grid* g = t->block->grid;
    if (!g->cooperative) {
        set_failure(kTooLarge, site, "%s: grid.sync() in a launch that is not cooperative", g->name.c_str());
        abandon();
    }
    t->what = "grid.sync()";
    t->site = site;
    t->wait = Wait::grid;
    t->next = g->barrier;
    g->barrier = t;
    ++g->waiting;
    check_grid_barrier(g);
    dispatch();
}

EXPORT void spg_warp(spg_warp_op op, const char* what, unsigned mask, spg_lane* mine, spg_site site)
{
    Thread* t = self();
    Block* b = t->block;
    Warp& w = b->warps[t->warp()];
    t->spins = 0;
    if (!(mask & t->bit())) {
        set_failure(kLaunchFailure, site, "%s: %s by %s with mask 0x%08x, which lacks its own lane %u",
                    b->grid->name.c_str(), what, thread_name(t).c_str(), mask, t->view.rank % kWarp);
        abandon();
    }
    t->lane = mine;
    t->what = what;
    t->site = site;
    Meeting* meeting = nullptr;
    for (Meeting& m : w.meetings)
        if (m.mask == mask) meeting = &m;
    if (!meeting) {
        w.meetings.emplace_back();
        meeting = &w.meetings.back();
        meeting->mask = mask;
        meeting->here = 0;
        meeting->op = op;
        meeting->what = what;
    } else if (meeting->op != op || (meeting->what != what && strcmp(meeting->what, what))) {
        set_failure(kLaunchFailure, site, "%s: lanes of warp %u of %s meet at different operations: %s%s and %s%s",
                    b->grid->name.c_str(), t->warp(), block_name(b).c_str(), meeting->what,
                    at(meeting->lanes[__builtin_ctz(meeting->here)]->site).c_str(), what, at(site).c_str());
        abandon();
    }
    meeting->here |= t->bit();
    meeting->lanes[t->view.rank % kWarp] = t;
    if (meeting->here == (mask & w.alive)) {
        check_meetings(w, t);
    } else {
        t->wait = Wait::warp;
        dispatch();
    }
}

EXPORT unsigned spg_active_mask(spg_site site)
{
    Thread* t = self();
    t->what = "__activemask()";
    t->site = site;
    t->wait = Wait::active;
    converging.push_back(t);
    dispatch();
    return self()->result;
}

EXPORT void spg_yield()
{
    Thread* t = self();
    if (!t || ++t->spins % kSpinsBeforeYield) return;
    spinning.push_back(t);
    dispatch();
}

EXPORT void spg_count_atomic(const volatile void* address)
{
    const char* p = (const char*)address;
    const Block* b = self()->block;
    bool shared = b->shared->dynamic && p >= b->shared->dynamic && p < b->shared->dynamic + b->grid->shared;
    for (const SharedArray& a : b->shared->arrays) shared = shared || (p >= a.memory && p < a.memory + a.bytes);
    ++(shared ? device->shared_atomics : device->global_atomics);
    spg_yield();
}

EXPORT void spg_trap(const char* what, spg_site site)
{
    set_failure(kLaunchFailure, site, "%s: %s in %s", self()->block->grid->name.c_str(), what, thread_name(self()).c_str());
    abandon();
}

EXPORT long long spg_nanoseconds()
{
    spg_yield();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

EXPORT int spg_last_error(int clear)
{
    Thread* t = self();
    const int error = t->error;
    if (clear) t->error = 0;
    return error;
}

namespace {

bool bad_shape(dim3 grid, dim3 block, size_t shared)
{
    return !block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64 ||
           (unsigned long long)block.x * block.y * block.z > 1024 || grid.x > 0x7fffffffu || grid.y > 65535 ||
           grid.z > 65535 || shared > kMaxShared;
}

Grid* new_grid(const char* name, spg_call call, void* kernel, dim3 grid, dim3 block, size_t shared)
{
    Grid* g = new Grid;
    g->name = name;
    g->call = call;
    g->kernel = kernel;
    g->grid = grid;
    g->block = block;
    g->shared = shared;
    g->blocks = (unsigned long long)grid.x * grid.y * grid.z;
    shuffle(g->blocks, g->start, g->step);
    grids.push_back(g);
    return g;
}

// Does a pointer lead to memory that no other grid may see?
const char* private_memory(const void* pointer)
{
    const char* p = (const char*)pointer;
    for (const Block* b : live) {
        if (b->shared->dynamic && p >= b->shared->dynamic && p < b->shared->dynamic + b->grid->shared) return "shared";
        for (const SharedArray& a : b->shared->arrays)
            if (p >= a.memory && p < a.memory + a.bytes) return "shared";
    }
    return p >= current->stack && p < current->stack + current->bytes ? "local" : nullptr;
}

}  // namespace

EXPORT int spg_launch_child(const char* name, spg_call call, void* kernel, void** arguments, const size_t* sizes, int count,
                            dim3 grid, dim3 block, size_t shared, spg_order order, const void* stream, spg_site site)
{
    Thread* t = self();
    Grid* parent = t->block->grid;
    if (bad_shape(grid, block, shared) || !grid.x || !grid.y || !grid.z) return t->error = kInvalidConfiguration;
    if (pending >= device->pending_limit) return t->error = kPendingExceeded;
    Grid* g = new_grid(name, call, kernel, grid, block, shared);
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
        if (sizes[i] == sizeof(void*))
            if (const char* space = private_memory(*(void**)arguments[i])) {
                set_failure(kLaunchFailure, site, "%s: child %s gets a pointer to %s memory of its parent, which it cannot see",
                            parent->name.c_str(), name, space);
                abandon();
            }
        total += (sizes[i] + 15) / 16 * 16;
    }
    g->storage.resize(total);
    total = 0;
    for (int i = 0; i < count; ++i) {
        memcpy(g->storage.data() + total, arguments[i], sizes[i]);
        g->pointers.push_back(g->storage.data() + total);
        total += (sizes[i] + 15) / 16 * 16;
    }
    g->arguments = g->pointers.data();
    g->parent = parent;
    ++pending;
    ++device->child_launches;
    if (order == SPG_TAIL) {
        parent->tails.push_back(g);
        return 0;
    }
    ++parent->open_children;
    if (order == SPG_STREAM) {
        g->in_stream = true;
        g->stream = {t->block->serial, stream};
        Grid*& last = streams[g->stream];
        if (last) last->successor = g;
        else enqueue(g);
        last = g;
    } else {
        enqueue(g);
    }
    if (seed && draw(4) == 0) {  // sometimes the child runs before its parent goes on
        spinning.push_back(t);
        dispatch();
    }
    return 0;
}

EXPORT void* spg_device_malloc(size_t bytes)
{
    if (heap_used > device->heap_limit || bytes > device->heap_limit - heap_used) return nullptr;
    void* pointer = malloc(bytes ? bytes : 1);
    if (!pointer) return nullptr;
    memset(pointer, kJunk, bytes);
    heap[pointer] = bytes;
    heap_used += bytes;
    return pointer;
}

EXPORT void spg_device_free(void* pointer)
{
    if (!pointer) return;
    auto at = heap.find(pointer);
    if (at == heap.end()) spg_trap("free() of what malloc() did not give", {nullptr, 0});
    heap_used -= at->second;
    heap.erase(at);
    free(pointer);
}

// ---- called by the host ---------------------------------------------------------------------------------

// Runs one grid and all it launches. Returns 0, or CUDA's number of the error; spg_message() says more.
EXPORT SPG_NOINLINE int spg_launch(const char* name, spg_call call, void* kernel, void** arguments, const unsigned* shape,
                                   unsigned long long shared, int cooperative, spg_device* on)
{
    pthread_mutex_lock(&launch_lock);
    device = on;
    seed = on->seed;
    failure = 0;
    message[0] = failure_place[0] = 0;
    const dim3 grid(shape[0], shape[1], shape[2]), block(shape[3], shape[4], shape[5]);
    const unsigned long long threads = 1ull * grid.x * grid.y * grid.z * block.x * block.y * block.z;
    if (bad_shape(grid, block, shared)) {
        set_failure(kInvalidConfiguration, {nullptr, 0},
                    "%s: invalid launch: grid (%u,%u,%u), block (%u,%u,%u), %llu bytes of shared memory", name, grid.x, grid.y,
                    grid.z, block.x, block.y, block.z, shared);
    } else if (cooperative && threads > kMaxLive) {
        set_failure(kTooLarge, {nullptr, 0}, "%s: a cooperative launch of %llu threads; the host device holds %u at once", name,
                    threads, kMaxLive);
    } else if (grid.x && grid.y && grid.z) {
        ++device->kernel_launches;
        random_state = seed;
        Grid* g = new_grid(name, call, kernel, grid, block, shared);
        g->arguments = arguments;
        g->cooperative = cooperative;
        enqueue(g);
        {
            [[maybe_unused]] FaultGuard guard;
            run_all();
        }
        if (failure) clean_up();
    }
    const int result = failure;
    pthread_mutex_unlock(&launch_lock);
    return result;
}

EXPORT const char* spg_message() { return message; }
EXPORT const char* spg_place() { return failure_place; }

// Device memory of exactly `bytes`, filled with junk. 256-byte aligned, as cudaMalloc's.
EXPORT void* spg_alloc(size_t bytes)
{
    void* pointer;
    if (posix_memalign(&pointer, 256, bytes ? bytes : 1)) return nullptr;
    memset(pointer, kJunk, bytes);
#ifdef SPG_ASAN
    if (!bytes) __asan_poison_memory_region(pointer, 1);
#endif
    return pointer;
}

EXPORT void spg_free(void* pointer) { free(pointer); }

#ifdef SPG_ASAN
namespace {
__attribute__((constructor)) void watch() { __asan_set_error_report_callback(on_report); }
}
#endif
