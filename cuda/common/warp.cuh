// warp.cuh: what the lanes of a warp do together, and relaxed accesses of words that several threads use at a time.
//
// A plain access that races with another one is undefined, whatever the hardware does. Words that may race are read and
// written through the functions here and in ordered.cuh. Each is one line: its name, its order and its scope. The
// bodies for the GPU and for the host device are both made from that line, so they cannot differ.
//
//   order  relaxed: no tearing, and no order between this and other accesses. acquire, release: see ordered.cuh.
//   scope  of the threads that race: cta, the block (L1 may answer), or gpu, the grid (L2 answers).
//
// On the host device a thread that reads such a word may be stopped there for another thread to go on: always by
// acquires, by relaxed loads if there is a seed. A loop that waits for a relaxed load calls spin_pause().
#pragma once
#include "spg.cuh"

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
static __forceinline__ void spin_pause() { spg_yield(); }
#else
#define SPG_CLOBBERS_relaxed
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
__device__ __forceinline__ void spin_pause() {}
#endif

SPG_ORDERED_LOAD(load_grid, relaxed, gpu)
SPG_ORDERED_LOAD(load_block, relaxed, cta)
SPG_ORDERED_STORE(store_grid, relaxed, gpu)
SPG_ORDERED_STORE(store_block, relaxed, cta)

// Sums over a warp, of which all 32 lanes come. All lanes get warp_sum, lane 0 alone lane_0_sum; warp_inclusive_sum is
// that of the values of this lane and those below it.
template <class T> __device__ __forceinline__ T warp_sum(T value)
{
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(SPG_FULL_WARP, value, distance);
    return value;
}
template <class T> __device__ __forceinline__ T lane_0_sum(T value)
{
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(SPG_FULL_WARP, value, distance);
    return value;
}
template <class T> __device__ __forceinline__ T warp_inclusive_sum(T value)
{
    const unsigned lane = threadIdx.x & 31;
    for (int distance = 1; distance < 32; distance *= 2) {
        const T below = __shfl_up_sync(SPG_FULL_WARP, value, distance);
        if (lane >= (unsigned)distance) value += below;
    }
    return value;
}
