// ordered.cuh: accesses of words that several threads use at the same time, and a barrier for a whole grid.
//
// A plain access that races with another one is undefined, whatever the hardware does. Words that may race are read and
// written through the functions here. Each is one line: its name, its order and its scope. The bodies for the GPU and
// for the host device are both made from that line, so they cannot differ.
//
//   order  relaxed: no tearing, and no order between this and other accesses. acquire, release: what was written before
//          the release is seen after an acquire that reads it (PTX's memory model).
//   scope  of the threads that race: cta, the block (L1 may answer), or gpu, the grid (L2 answers).
//
// On the host device a thread that reads such a word may be stopped there for another thread to go on: always by
// acquires, by relaxed loads if there is a seed. A loop that waits for a relaxed load calls spin_pause().
#pragma once
#include "prefetch.cuh"

#define SPG_FULL_WARP 0xffffffffu

typedef unsigned long long word64_t;

#ifdef SPG_HOST
#define SPG_ORDERED_LOAD(name, order, scope)                     \
    template <class T> static __forceinline__ T name(const T* p) \
    {                                                            \
        return spg::ordered_load<spg::order, spg::scope>(p);     \
    }
#define SPG_ORDERED_STORE(name, order, scope)                                                     \
    template <class T> static __forceinline__ void name(T* p, typename spg::plain<T>::type value) \
    {                                                                                             \
        spg::ordered_store<spg::order, spg::scope>(p, value);                                     \
    }
#define SPG_ORDERED_ADD(name, order, scope)                                                    \
    template <class T> static __forceinline__ T name(T* p, typename spg::plain<T>::type value) \
    {                                                                                          \
        return spg::ordered_add<spg::order, spg::scope>(p, value);                             \
    }
static __forceinline__ void spin_pause() { spg_yield(); }
#else
#define SPG_CLOBBERS_relaxed
#define SPG_CLOBBERS_acquire : "memory"
#define SPG_CLOBBERS_release : "memory"
#define SPG_CLOBBERS_acq_rel : "memory"
#define SPG_LOAD_AS(name, order, scope, type, ptx, reg)                                                       \
    __device__ __forceinline__ type name(const type* p)                                                       \
    {                                                                                                         \
        type v;                                                                                               \
        asm volatile("ld." #order "." #scope "." ptx " %0, [%1];" : "=" reg(v) : "l"(p)SPG_CLOBBERS_##order); \
        return v;                                                                                             \
    }
#define SPG_STORE_AS(name, order, scope, type, ptx, reg)                                                        \
    __device__ __forceinline__ void name(type* p, type value)                                                   \
    {                                                                                                           \
        asm volatile("st." #order "." #scope "." ptx " [%0], %1;" : : "l"(p), reg(value) SPG_CLOBBERS_##order); \
    }
#define SPG_ADD_AS(name, order, scope, type, ptx, reg)                      \
    __device__ __forceinline__ type name(type* p, type value)               \
    {                                                                       \
        type before;                                                        \
        asm volatile("atom.add." #order "." #scope "." ptx " %0, [%1], %2;" \
                     : "=" reg(before)                                      \
                     : "l"(p), reg(value) SPG_CLOBBERS_##order);            \
        return before;                                                      \
    }
#define SPG_ORDERED_LOAD(name, order, scope)              \
    SPG_LOAD_AS(name, order, scope, int, "s32", "r")      \
    SPG_LOAD_AS(name, order, scope, unsigned, "u32", "r") \
    SPG_LOAD_AS(name, order, scope, word64_t, "u64", "l") \
    SPG_LOAD_AS(name, order, scope, float, "f32", "f")    \
    SPG_LOAD_AS(name, order, scope, double, "f64", "d")
#define SPG_ORDERED_STORE(name, order, scope)              \
    SPG_STORE_AS(name, order, scope, int, "s32", "r")      \
    SPG_STORE_AS(name, order, scope, unsigned, "u32", "r") \
    SPG_STORE_AS(name, order, scope, word64_t, "u64", "l")
#define SPG_ORDERED_ADD(name, order, scope) SPG_ADD_AS(name, order, scope, unsigned, "u32", "r")
__device__ __forceinline__ void spin_pause() {}
#endif

SPG_ORDERED_LOAD(load_grid, relaxed, gpu)
SPG_ORDERED_LOAD(load_block, relaxed, cta)
SPG_ORDERED_LOAD(load_acquire, acquire, gpu)
SPG_ORDERED_STORE(store_grid, relaxed, gpu)
SPG_ORDERED_STORE(store_block, relaxed, cta)
SPG_ORDERED_ADD(add_release, release, gpu)
// For the last to add, which then overwrites what the others have read or written.
SPG_ORDERED_ADD(add_acquire_release, acq_rel, gpu)

// On a GPU the lanes of a warp go side by side, so that each may know what it read before any of them writes. The host
// runs one after another: there this makes them meet. Nothing may depend on it: it orders no memory.
#ifdef SPG_HOST
static inline void lanes_together() { __ballot_sync(SPG_FULL_WARP, 1); }
#else
__device__ __forceinline__ void lanes_together() {}
#endif

// A barrier for whole warps of a block, `threads` in all; `team`, 0 to 14, tells it from others of that block.
__device__ __forceinline__ void team_barrier(int team, int threads)
{
#ifdef SPG_HOST
    spg_named_barrier(team + 1, threads, SPG_HERE);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(threads) : "memory");
#endif
}

// Waits until every block of the grid is here; what any thread wrote before is seen by all after it. The launch must
// be cooperative (all blocks resident), and every thread of every block must come.
//
// `barrier` is one word, zero when it is made. Block 0 adds 2^31 - (blocks - 1), the others 1: the top bit flips when
// the last one arrives and the rest is as before, so the word serves the next barrier, and the next launch, as it is.
// One atomic per block. (The idea is that of cooperative groups' grid.sync.) The block barriers around make thread
// 0's release and acquire stand for all threads of its block: synchronisation is cumulative in PTX's memory model.
// So plain loads, and lines in L1, are right again after it.
__device__ __forceinline__ void grid_barrier(unsigned* barrier)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned arrive = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        const unsigned before = add_release(barrier, arrive);
        while (((load_acquire(barrier) ^ before) & 0x80000000u) == 0) {
        }
    }
    __syncthreads();
}
