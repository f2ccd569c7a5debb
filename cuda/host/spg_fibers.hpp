// spg_fibers.hpp: the runtime's types and state, its fibers, and what happens when a kernel fails.
// Part of spg_runtime.cpp.
#pragma once

#include "spg_runtime.hpp"
#ifdef SPG_HOOKS
#include "spg_known.hpp"
#define SPG_TELL(what) what
#else
#define SPG_TELL(what)
#endif

#include <dlfcn.h>
#include <pthread.h>
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
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#ifdef SPG_ASAN  // kernels are sanitised; the runtime itself is not, it only tells AddressSanitizer what it does
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#define SPG_NOINLINE __attribute__((noinline))
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStaticShared = 48 << 10;

// Fills memory that nothing has written. NaN in every floating-point type, since a finite number could cancel out; as
// an integer neither 0 nor -1, nor a place in an array.
void fill_with_junk(void* memory, size_t bytes)
{
    constexpr unsigned char kJunk[] = {0xF9, 0xFF};
    char* to = static_cast<char*>(memory);
    for (size_t i = 0; i < bytes && i < sizeof kJunk; ++i) to[i] = static_cast<char>(kJunk[i]);
    for (size_t done = sizeof kJunk; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

// What a launch may have at most; of a GPU whose limits are imposed (ctypes mirrors it).
struct Limits {
    unsigned long long live = 4 * 2048;  // threads alive together: 4 multiprocessors. A cooperative grid has to fit
    unsigned long long shared = 227 << 10;  // of a block, static and dynamic
};
Limits limits;  // of the launch that is running

#ifdef SPG_ASAN
constexpr size_t kStack = 256 << 10;  // instrumented frames are larger
#else
constexpr size_t kStack = 64 << 10;
#endif
constexpr unsigned kSpinsBeforeYield = 64;  // a loop of atomics is mostly work; a spin gets here soon enough
constexpr unsigned kPriorities = 1 << 30;

// CUDA's numbers
constexpr int kInvalidConfiguration = 9, kLaunchFailure = 719, kTooLarge = 720, kPendingExceeded = 69;
constexpr int kInvalidValue = 1, kInvalidHandle = 400;
constexpr int kMemoryAllocation = 2;

struct Grid;
struct Block;
struct Thread;
struct Warp;

struct Fiber {
    void* jump[5];
    char* stack = nullptr;
    size_t bytes = 0;
    void* fake = nullptr;  // ASan's shadow of this stack while it is switched out
    Thread* thread = nullptr;
    Block* block = nullptr;
    bool started = false;
};

enum class Wait : unsigned char { none, barrier, grid, warp, active, named };

struct Thread {
    spg_thread_view view;
    Fiber* fiber;
    Block* block;
    Thread* next;  // in one list of waiting threads
    const char* what;
    spg_site site;
    spg_lane* lane;
    unsigned result, arrived, spins;
    int error;
    Wait wait;
#ifdef SPG_HOOKS
    race::Known known;  // beyond what its warp, block and grid know
    race::Known heard;  // read from words that others released; a fence makes it known
    race::Known fenced, fenced_here;  // what was known at the last fence, and at the last of the block's scope
#endif
    unsigned warp() const { return view.rank / kWarp; }
    Warp& of() const;
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
    unsigned alive, priority;
    std::vector<Meeting> meetings;
#ifdef SPG_HOOKS
    race::Known known;
    race::Time met;  // when all lanes last met
#endif
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

// bar.sync with a name, which some threads have reached.
struct NamedBarrier {
    int name;
    unsigned threads;
    std::vector<Thread*> here;
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
    std::vector<NamedBarrier> named;
#ifdef SPG_HOOKS
    race::Known known;
    race::Time met;
    unsigned number;  // in the launch
    bool traced;
#endif
};

inline Warp& Thread::of() const { return block->warps[warp()]; }

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
    size_t slot;  // in grids
    // Children: a grid is complete when its blocks have ended, its children are complete, and then its tails.
    Grid* parent = nullptr;
    unsigned long long open_children = 0;
    std::deque<Grid*> tails;
    Grid* successor = nullptr;  // next in the same device-side stream
    std::pair<unsigned long long, const void*> stream{0, nullptr};
    bool in_stream = false;
    std::set<const void*> own_streams;  // that its threads have made and not destroyed
#ifdef SPG_HOOKS
    race::Known known, after;  // what it knew when it began or last met, and what its children did
    race::Time met;
    unsigned number;  // in the launch
    bool aliased;  // an array is both const __restrict__ and not
    unsigned every;  // one in so many blocks is traced
#endif
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
// The grid launched last into each: into stream 0 of a block (its serial number), or one that a grid made (0, its
// handle).
std::map<std::pair<unsigned long long, const void*>, Grid*> streams;
size_t streams_made;
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

SPG_NOINLINE void jump_to(Fiber* to)
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

inline void arrive()
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
SPG_NOINLINE void switch_to(Fiber* to)
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
    if (site.file && site.line)
        snprintf(failure_place, sizeof failure_place, "%s:%d", site.file, site.line);
    else
        failure_place[0] = 0;
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

// ---- errors ---------------------------------------------------------------------------------------------

// An error in a kernel ends the launch, not the process. The place is "library+0xoffset", for addr2line.
void on_fault(int signal, siginfo_t* info, void* context)
{
    if (current == &scheduler) {  // not in a kernel: the runtime's own error must be seen as such
        ::signal(signal, SIG_DFL);
        return;
    }
    const Thread* t = current->thread;
    const char* address = (const char*)info->si_addr;
    const bool overflow = address < current->stack && address >= current->stack - (64 << 10);
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: %s in %s", t ? t->block->grid->name.c_str() : "kernel",
                signal == SIGFPE   ? "integer division by zero"
                : signal == SIGILL ? "undefined behaviour (trap)"
                : overflow         ? "stack overflow"
                                   : "invalid memory access",
                t ? thread_name(t).c_str() : "?");
    const ucontext_t* state = (const ucontext_t*)context;
#if defined(__x86_64__)
    const uintptr_t counter = (uintptr_t)state->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    const uintptr_t counter = (uintptr_t)state->uc_mcontext.pc;
#else
    const uintptr_t counter = state ? 0 : 0;
#endif
    Dl_info library;
    if (counter && dladdr((void*)counter, &library))
        snprintf(failure_place, sizeof failure_place, "%s+0x%zx", library.dli_fname,
                 (size_t)(counter - (uintptr_t)library.dli_fbase));
#ifdef SPG_ASAN
    __sanitizer_start_switch_fiber(nullptr, scheduler.stack, scheduler.bytes);
#endif
    previous = current;
    current = &scheduler;
    __builtin_longjmp(scheduler.jump, 1);
}

// The handlers are installed while a grid runs, on a stack of their own, and only then.
struct FaultGuard {
    static constexpr int signals[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static inline char alternate[64 << 10];
    struct sigaction old[4];
    stack_t old_stack;
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
};

#ifdef SPG_ASAN
// The report's kind, access and neighbour, and its first frame, become the launch's failure; the launch stops at
// the next switch. Texts are "ERROR: AddressSanitizer: KIND on ...", "READ of size 4 at 0x... thread T0",
// "#0 0x... in FUNCTION FILE:LINE", "0x... is located 0 bytes to the right of 40-byte region [...".
std::string between(const char* text, const char* after, const char* stop)
{
    const char* start = strstr(text, after);
    return start ? std::string(start + strlen(after), strcspn(start + strlen(after), stop)) : std::string();
}

void on_report(const char* report)
{
    if (failure) return;
    const Thread* t = current->thread;
    const std::string kind = between(report, "AddressSanitizer: ", " \n");
    const bool read = strstr(report, "\nREAD of size ");
    const std::string size = between(report, read ? "\nREAD of size " : "\nWRITE of size ", " \n");
    const std::string where = between(report, " is located ", "[,\n");
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: %s, a %s of %s bytes by %s; the address is %s",
                t ? t->block->grid->name.c_str() : "host", kind.c_str(), read ? "read" : "write", size.c_str(),
                t ? thread_name(t).c_str() : "the host", where.empty() ? "in no buffer" : where.c_str());
    std::string frame = between(report, "#0 ", "\n");
    frame.erase(0, frame.rfind(' ') + 1);
    const size_t line = frame.find(':');
    if (line != std::string::npos)  // without the column
        snprintf(failure_place, sizeof failure_place, "%s", frame.substr(0, frame.find(':', line + 1)).c_str());
}
#endif

}  // namespace
