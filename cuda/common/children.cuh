// children.cuh: launches and allocations on the device that are never lost without a word.
//
// A launch that finds the pool of waiting launches full is not run. The thread that asked for it can see error 69
// (cudaErrorLaunchPendingCountExceeded); no other thread can, and the host sees nothing. So every launch is counted
// where it is made, and the host looks at the counts after the run:
//
//     SPG_LAUNCH(kernel, grid, block, 0, cudaStreamFireAndForget)(arguments);
//     count_child(children);
//
// `children` is word64_t [6], the kernel argument that Job.children() gives: grids launched, launches refused for want
// of room in the pool, launches that failed otherwise, the error of one of those, allocations, allocations that failed.
// The counts only grow, by relaxed atomics; one is some nanoseconds, a launch 250 and more.
#pragma once
#include "spg.cuh"

// Order, as CUDA 12 and 13 have it: a parent cannot wait for its children. A fire-and-forget child may run at any time
// from its launch until the parent as a whole completes, which it holds up; a tail launch runs after the parent and all
// that it launched; launches into one stream (0: the block's own) run one after another. What a child reads it gets as
// an argument or from global memory that was written before the launch by the thread that launches (or made visible to
// it); of shared and local memory it sees nothing.

enum { SPG_LAUNCHED, SPG_REFUSED, SPG_FAILED, SPG_ERROR, SPG_ALLOCATED, SPG_UNALLOCATED };

// Looks at the launch that this thread made just now, and tells whether it will be run.
__device__ __forceinline__ bool count_child(unsigned long long* children)
{
    const cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) {
        atomicAdd(children + SPG_LAUNCHED, 1ull);
        return true;
    }
    if (error == cudaErrorLaunchPendingCountExceeded) {
        atomicAdd(children + SPG_REFUSED, 1ull);
    } else {
        atomicAdd(children + SPG_FAILED, 1ull);
        atomicExch(children + SPG_ERROR, (unsigned long long)error);
    }
    return false;
}

// malloc on the device, from the heap whose size was set before the first launch; null when it is used up. Memory from
// it must be freed by a kernel: cudaFree does not take it.
__device__ __forceinline__ void* allocate(size_t bytes, unsigned long long* children)
{
    void* memory = malloc(bytes);
    atomicAdd(children + (memory ? SPG_ALLOCATED : SPG_UNALLOCATED), 1ull);
    return memory;
}
