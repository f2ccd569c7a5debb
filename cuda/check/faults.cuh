// faults.cuh: what every validator here reports: how often each rule is broken, and the least vertex where it is.
//
// The kernels of this folder check answers. They share nothing with the kernels that find them but spg.cuh, and are
// plain: a thread per vertex, or a warp per vertex whose lanes take its out-edges in turn.
#pragma once

#include "../common/spg.cuh"

typedef unsigned long long count_t;

__device__ __forceinline__ void fault(count_t* counts, index_t* least, int rule, index_t v)
{
    atomicAdd(counts + rule, (count_t)1);
    atomicMin(least + rule, v);
}

// The vertex of this thread, or of this thread's warp.
__device__ __forceinline__ long long thread_vertex() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long warp_vertex() { return thread_vertex() / 32; }
