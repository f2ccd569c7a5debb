// segmented_sum.cuh: adds the products of consecutive entries, sorted by row, into y; one warp at a time.
// Shared by coo_segmented.cu and hyb.cu.
#pragma once
#include "values.cuh"

#define SPG_FULL_WARP 0xffffffffu

// The warp adds val[e] * x[col[e]] into y[row[e]] for all e in [first, first + 32 * steps) below nnz.
//
// Each step takes 32 entries, a lane per entry. An inclusive scan that stops at row changes leaves, in the last
// lane of every row, the sum of the row's entries in this step. A row that goes on in the next step is carried
// there; any other is added to y. A popular row thus costs one atomic per warp instead of one per entry.
// All 32 lanes must call it together.
__device__ __forceinline__ void segmented_sum(offset_t nnz, long long first, int steps,
                                              const index_t* __restrict__ row,
                                              const index_t* __restrict__ col,
                                              values_t val,
                                              const value_t* __restrict__ x, value_t* y) {
    const int lane = threadIdx.x & 31;
    index_t carried_row = -1;  // the same in all lanes
    value_t carried = 0;
    for (int step = 0; step < steps; ++step) {
        const long long e = first + step * 32 + lane;
        index_t r = -1;  // beyond the end: a row of its own that is never added
        value_t sum = 0;
        if (e < nnz) {
            r = row[e];
            sum = value_of(val, e) * x[col[e]];
        }
        if (lane == 0 && carried_row >= 0) {
            if (r == carried_row)
                sum += carried;
            else
                atomicAdd(y + carried_row, carried);
        }
        for (int distance = 1; distance < 32; distance *= 2) {
            const index_t r_below = __shfl_up_sync(SPG_FULL_WARP, r, distance);
            const value_t sum_below = __shfl_up_sync(SPG_FULL_WARP, sum, distance);
            // Rows are sorted: if the lane `distance` below has this row, so have all between.
            if (lane >= distance && r_below == r) sum += sum_below;
        }
        const index_t r_above = __shfl_down_sync(SPG_FULL_WARP, r, 1);
        if (lane < 31 && r >= 0 && r != r_above) atomicAdd(y + r, sum);
        carried_row = __shfl_sync(SPG_FULL_WARP, r, 31);
        carried = __shfl_sync(SPG_FULL_WARP, sum, 31);
    }
    if (lane == 0 && carried_row >= 0) atomicAdd(y + carried_row, carried);
}
