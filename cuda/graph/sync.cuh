// sync.cuh: words that several threads write at the same time, and a barrier for a whole grid.
//
// A plain access that races with another one is undefined, whatever the hardware does. So racing words are read and
// written through the functions here, which say so to compiler and GPU: relaxed (no order is implied), with the scope
// of those who race: the block (may be served by L1) or the grid (L2).
#pragma once
#include "../common/prefetch.cuh"

#define SPG_FULL_WARP 0xffffffffu

typedef unsigned long long word64_t;

#ifdef SPG_HOST
template <class T> static inline T load_grid(const T* p) { return *(const volatile T*)p; }
template <class T> static inline T load_block(const T* p) { return *(const volatile T*)p; }
template <class T> static inline void store_grid(T* p, T value) { *(volatile T*)p = value; }
template <class T> static inline void store_block(T* p, T value) { *(volatile T*)p = value; }
// On a GPU the lanes of a warp go side by side, so that each may know what it read before any of them writes. The host
// runs one after another: there this makes them meet. Nothing may depend on it.
static inline void lanes_together() { __syncwarp(); }
static inline unsigned load_acquire(const unsigned* p) { return __ldcv(p); }  // yields, so that others get on
// An arrival, which takes no place: counted as neither a claim nor a reservation.
static inline unsigned add_release(unsigned* p, unsigned value) { return atomicSub(p, 0u - value); }
static inline unsigned add_acquire_release(unsigned* p, unsigned value) { return atomicSub(p, 0u - value); }
#else
__device__ __forceinline__ int load_grid(const int* p)
{
    int v;
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ unsigned load_grid(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ word64_t load_grid(const word64_t* p)
{
    word64_t v;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ unsigned load_block(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.relaxed.cta.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ int load_block(const int* p)
{
    int v;
    asm volatile("ld.relaxed.cta.s32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ void lanes_together() {}
__device__ __forceinline__ void store_block(int* p, int value)
{
    asm volatile("st.relaxed.cta.s32 [%0], %1;" : : "l"(p), "r"(value));
}
__device__ __forceinline__ void store_grid(int* p, int value)
{
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" : : "l"(p), "r"(value));
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ unsigned add_release(unsigned* p, unsigned value)
{
    unsigned before;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(value) : "memory");
    return before;
}
// For whoever is the last to add, and then overwrites what the others have read or written.
__device__ __forceinline__ unsigned add_acquire_release(unsigned* p, unsigned value)
{
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(value) : "memory");
    return before;
}
#endif

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
