// begin.cuh: how the plain modes begin: level -1 for all but the source, and the source in the queue (where there is
// one). `sizes` int32 [3] is used in turn: level k is counted in sizes[k % 3], level k + 1 into the next one, and the
// third is cleared meanwhile.
#pragma once

#include "../common/warp.cuh"

SPG_KERNEL bfs_begin(index_t n, const index_t* __restrict__ source, int* level, index_t* queue, int* sizes)
{
    const long long threads = (long long)gridDim.x * blockDim.x;
    const index_t from = *source;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads)
        level[v] = v == from ? 0 : -1;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        if (queue) queue[0] = from;
        sizes[0] = 1;
        sizes[1] = 0;
    }
}

// For one thread of the grid, in level k.
__device__ __forceinline__ void clear_unused(int* sizes, int k)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) sizes[(k + 2) % 3] = 0;
}
