// ordered.cuh: accesses that order others, and a barrier for a whole grid. Relaxed ones are in warp.cuh, which says how
// such accesses are declared.
//
//   acquire, release: what was written before the release is seen after an acquire that reads it (PTX's memory model).
#pragma once
#include "warp.cuh"

#ifdef SPG_HOST
#define SPG_ORDERED_ADD(name, order, scope)                                                    \
    template <class T> static __forceinline__ T name(T* p, typename spg::plain<T>::type value) \
    {                                                                                          \
        return spg::ordered_add<spg::order, spg::scope>(p, value);                             \
    }
#else
#define SPG_CLOBBERS_acquire : "memory"
#define SPG_CLOBBERS_release : "memory"
#define SPG_CLOBBERS_acq_rel : "memory"
#define SPG_ORDERED_ADD(name, order, scope)                               \
    __device__ __forceinline__ unsigned name(unsigned* p, unsigned value) \
    {                                                                     \
        unsigned before;                                                  \
        asm volatile("atom.add." #order "." #scope ".u32 %0, [%1], %2;"   \
                     : "=r"(before)                                       \
                     : "l"(p), "r"(value)SPG_CLOBBERS_##order);           \
        return before;                                                    \
    }
#endif

SPG_ORDERED_LOAD(load_acquire, acquire, gpu)
SPG_ORDERED_ADD(add_release, release, gpu)
// For the last to add, which then overwrites what the others have read or written.
SPG_ORDERED_ADD(add_acquire_release, acq_rel, gpu)

// Waits until every block of the grid is here; what any thread wrote before is seen by all after it. The launch must
// be cooperative (all blocks resident), and every thread of every block must come.
//
// `barrier` is one word, zero when it is made. Block 0 adds 2^31 - (blocks - 1), the others 1: the top bit flips when
// the last one arrives and the rest is as before, so the word serves the next barrier, and the next launch, as it is.
// One atomic per block. (The idea is that of cooperative groups' grid.sync.) The block barriers around make thread
// 0's release and acquire stand for all threads of its block: synchronisation is cumulative in PTX's memory model.
// So plain loads, and lines in L1, are right again after it.
//
// `then` is done by thread 0 of each block when all blocks are there, before the others of its block go on.
template <class Then> __device__ __forceinline__ void grid_barrier(unsigned* barrier, Then then)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned arrive = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        const unsigned before = add_release(barrier, arrive);
        while (((load_acquire(barrier) ^ before) & 0x80000000u) == 0) {
        }
        then();
    }
    __syncthreads();
}

__device__ __forceinline__ void grid_barrier(unsigned* barrier)
{
    grid_barrier(barrier, [] {});
}
