// spg_runtime.hpp: what the shim (spg_host.hpp, compiled into every kernel file) and the runtime
// (spg_runtime.cpp, compiled once) say to each other. Plain C linkage: the runtime is loaded first, kernel
// files find its functions by name.
#pragma once

#include <stddef.h>

#ifdef SPG_HOOKS  // names of their own, so that a process can have the plain runtime and this one
#define spg_self spg_hooked_self
#define spg_shared spg_hooked_shared
#define spg_dynamic_shared spg_hooked_dynamic_shared
#define spg_dynamic_shared_bytes spg_hooked_dynamic_shared_bytes
#define spg_barrier spg_hooked_barrier
#define spg_named_barrier spg_hooked_named_barrier
#define spg_grid_barrier spg_hooked_grid_barrier
#define spg_warp spg_hooked_warp
#define spg_active_mask spg_hooked_active_mask
#define spg_count_atomic spg_hooked_count_atomic
#define spg_yield spg_hooked_yield
#define spg_relaxed_loads spg_hooked_relaxed_loads
#define spg_switch_mask spg_hooked_switch_mask
#define spg_switch spg_hooked_switch
#define spg_trap spg_hooked_trap
#define spg_nanoseconds spg_hooked_nanoseconds
#define spg_launch_child spg_hooked_launch_child
#define spg_stream_create spg_hooked_stream_create
#define spg_stream_destroy spg_hooked_stream_destroy
#define spg_last_error spg_hooked_last_error
#define spg_device_malloc spg_hooked_device_malloc
#define spg_device_free spg_hooked_device_free
#endif

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

// What a kernel can see of itself.
struct spg_block_view {
    uint3 block_idx;
    dim3 block_dim, grid_dim;
};

struct spg_thread_view {
    uint3 thread_idx;
    unsigned rank;  // in the block, x fastest; lane = rank % 32
    const spg_block_view* block;
};

// Where in the source something was called; as a default argument it is the caller's place, since the compiler
// evaluates the inner defaults there (a plain brace list would give the place of the declaration).
struct spg_site {
    const char* file;
    int line;
    static constexpr spg_site here(const char* file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};
#define SPG_HERE ::spg_site::here()

// One lane's part in a warp collective. Afterwards `out` holds its result, `present` the lanes that took part.
struct spg_lane {
    unsigned long long in, out;
    unsigned present;
    int source;                // SPG_WARP_SHUFFLE: lane to read from
    unsigned long long* all;   // SPG_WARP_GATHER: 32 slots that receive every lane's `in`
};

enum spg_warp_op { SPG_WARP_SYNC, SPG_WARP_SHUFFLE, SPG_WARP_BALLOT, SPG_WARP_MATCH, SPG_WARP_GATHER };

// What an access is, for the race detector and the trace. Plain unless SPG_STRONG.
enum spg_access_word : unsigned {
    SPG_READ = 1,
    SPG_WRITE = 2,
    SPG_STRONG = 4,      // relaxed at least
    SPG_ACQUIRE = 8,
    SPG_RELEASE = 16,
    SPG_CTA = 32,        // scope of the block, else of the GPU
    SPG_READ_ONLY = 64,  // through the read-only cache (.nc)
    SPG_L2 = 128,        // L1 does not answer, or does not keep it
    SPG_ATOMIC_ACCESS = SPG_READ | SPG_WRITE | SPG_STRONG,
};

// A host device's settings and counters, owned by the host (ctypes mirrors it).
struct spg_device {
    unsigned long long seed;           // 0: natural order
    unsigned long long pending_limit;  // device launches that may wait (cudaLimitDevRuntimePendingLaunchCount)
    unsigned long long heap_limit;     // bytes of device malloc
    unsigned long long strict;
    unsigned long long traced;         // requests are counted in place of races (spg_trace.hpp)
    unsigned long long global_atomics, shared_atomics, kernel_launches, child_launches, barriers;
    // Of the global atomics: those by which one of several threads gets something (atomicCAS, atomicOr), and those that
    // take places from a counter (atomicAdd of integers). What is left are sums, least values, arrivals at barriers.
    unsigned long long claims, reservations;
};

typedef void (*spg_call)(void* kernel, void** arguments);

extern "C" {
extern spg_thread_view* spg_self;  // the thread that is running; a plain global, since fibers share one OS thread

void* spg_shared(const void* declaration, size_t bytes, size_t align);
void* spg_dynamic_shared();
size_t spg_dynamic_shared_bytes();

// Block barrier: returns how many threads gave a nonzero predicate; *arrived is how many took part.
unsigned spg_barrier(const char* what, int predicate, unsigned* arrived, spg_site site);
void spg_grid_barrier(spg_site site);
void spg_warp(spg_warp_op op, const char* what, unsigned mask, spg_lane* mine, spg_site site);
unsigned spg_active_mask(spg_site site);

enum spg_atomic { SPG_OTHER, SPG_CLAIM, SPG_RESERVE };
void spg_count_atomic(const volatile void* address, spg_atomic kind);
void spg_yield();  // in every loop that waits: lets others go on
// Relaxed loads count here; each time that the count has no bit of the mask, another thread may go on.
extern unsigned spg_relaxed_loads, spg_switch_mask;
void spg_switch();
void spg_named_barrier(int name, unsigned threads, spg_site site);  // bar.sync
[[noreturn]] void spg_trap(const char* what, spg_site site);
long long spg_nanoseconds();  // a monotonic clock; reading it yields

enum spg_order { SPG_STREAM, SPG_FIRE_AND_FORGET, SPG_TAIL };
int spg_launch_child(const char* name, spg_call call, void* kernel, void** arguments, const size_t* sizes, int count,
                     dim3 grid, dim3 block, size_t shared, spg_order order, const void* stream, spg_site site);
int spg_stream_create(const void** stream, int non_blocking);
int spg_stream_destroy(const void* stream);
int spg_last_error(int clear);
void* spg_device_malloc(size_t bytes);
void spg_device_free(void* pointer);

#ifdef SPG_HOOKS  // see spg_hooks.hpp
void spg_access(const volatile void* address, unsigned bytes, unsigned what);
void spg_fence(int block_only);
extern int spg_quiet;
void* spg_named_shared(const void* declaration, size_t bytes, size_t align, const char* name, size_t element);
void* spg_named_dynamic_shared(const char* name, size_t element);
void spg_describe(const char* name, const void* kernel, const unsigned char* parameters, int count, const char* names,
                  unsigned long long read_only);
#endif
}
