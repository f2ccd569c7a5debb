// level.cuh: refines all cells of one level that are to be split.
//
// Layout   queue unsigned [2][capacity]: cells to be split, those of an even level in the first half;
//          queued int [3]: how many, level k in queued[k % 3];
//          cells unsigned [..], cell_count int [1]: the cells that are not split, in no order.
// Threads  A warp per cell, a block's warps side by side; one atomic per block for each of the two lists.
#pragma once

#include "field.cuh"

#define SPG_LEVEL_WARPS 8

// All threads of all blocks come; `count` cells are in `in`.
__device__ __forceinline__ void refine_level(const field_t& field, const unsigned* in, int count, unsigned* out,
                                             int* out_count, unsigned* cells, int* cell_count)
{
    SPG_SHARED_2D(double, values, SPG_LEVEL_WARPS, 25);
    SPG_SHARED(int, splits, SPG_LEVEL_WARPS);  // first of each warp, then where its cells go
    SPG_SHARED(int, leaves, SPG_LEVEL_WARPS);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (long long base = (long long)blockIdx.x * SPG_LEVEL_WARPS; base < count;
         base += (long long)gridDim.x * SPG_LEVEL_WARPS) {
        const bool active = base + warp < count;
        const unsigned cell = active ? in[base + warp] : 0;
        const unsigned split = active ? children_to_split(field, cell, values[warp]) : 0;
        __syncthreads();  // the places of an earlier round have been read
        if (lane == 0) {
            splits[warp] = __popc(split);
            leaves[warp] = active ? 4 - __popc(split) : 0;
        }
        __syncthreads();
        if (threadIdx.x < 2) {
            int* mine = threadIdx.x == 0 ? splits : leaves;
            int sum = 0;
            for (int w = 0; w < SPG_LEVEL_WARPS; ++w) sum += mine[w];
            int at = sum ? atomicAdd(threadIdx.x == 0 ? out_count : cell_count, sum) : 0;
            for (int w = 0; w < SPG_LEVEL_WARPS; ++w) {
                const int of_warp = mine[w];
                mine[w] = at;
                at += of_warp;
            }
        }
        __syncthreads();
        if (active && lane < 4) {
            const unsigned below = (1u << lane) - 1;
            if (split >> lane & 1)
                out[splits[warp] + __popc(split & below)] = 4 * cell + lane;
            else
                cells[leaves[warp] + __popc(~split & below)] = 4 * cell + lane;
        }
    }
}
