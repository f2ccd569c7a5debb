// segmented_sum.cuh: adds the products of consecutive entries, sorted by row, into y; one warp at a time.
// Shared by coo_segmented.cu and hyb.cu.
#pragma once
#include "values.cuh"

// SPG_BATCH: steps whose entries are loaded together, and then all of their x. More are better where x comes from L1;
// where it does not, more warps are.
#ifndef SPG_BATCH
#error "the host function defines SPG_BATCH"
#endif
constexpr int BATCH = SPG_BATCH;
// So that ptxas leaves registers for them: alone it settles for 32, and a step's entries wait for x of the one before.
#define SPG_SEGMENTED_BOUNDS __launch_bounds__(1024, BATCH > 1 ? 1 : SPG_RESIDENT(2048) / 1024)

// The warp adds val[e] * x[col[e]] into y[row[e]] for all e in [first, first + 32 * steps) below nnz.
//
// Each step takes 32 entries, a lane per entry. An inclusive scan that stops at row changes leaves, in the last
// lane of every row, the sum of the row's entries in this step. A row that goes on in the next step is carried
// there; any other is added to y. A popular row thus costs one atomic per warp instead of one per entry.
// All 32 lanes must call it together.
__device__ __forceinline__ void segmented_sum(offset_t nnz, long long first, int steps, const index_t* __restrict__ row,
                                              const index_t* __restrict__ col, values_t val,
                                              const value_t* __restrict__ x, value_t* y)
{
    const int lane = threadIdx.x & 31;
    const index_t* own_row = row + first + lane;
    const index_t* own_col = col + first + lane;
    int left = first + 32LL * steps < nnz ? 32 * steps : (int)(nnz - first);
    index_t carried_row = -1;  // the same in all lanes
    value_t carried = 0;
#pragma unroll 1
    for (; left > 0; left -= 32 * BATCH) {
        index_t r[BATCH], c[BATCH];
        value_t v[BATCH], sum[BATCH];
#pragma unroll
        for (int s = 0; s < BATCH; ++s) c[s] = spg_stream_if(own_col + 32 * s, 32 * s + lane < left);
#pragma unroll
        for (int s = 0; s < BATCH; ++s) v[s] = stream_value_if(val, first + lane + 32 * s, 32 * s + lane < left);
        // Beyond the end: a row of its own that is never added.
#pragma unroll
        for (int s = 0; s < BATCH; ++s) r[s] = spg_stream_if(own_row + 32 * s, 32 * s + lane < left, -1);
#pragma unroll
        for (int s = 0; s < BATCH; ++s) sum[s] = spg_gather_if(x + c[s], 32 * s + lane < left);
#pragma unroll
        for (int s = 0; s < BATCH; ++s) sum[s] *= v[s];
        own_row += 32 * BATCH;
        own_col += 32 * BATCH;
        first += 32 * BATCH;
#pragma unroll
        for (int s = 0; s < BATCH; ++s) {
            if (32 * s >= left) break;
            if (lane == 0 && carried_row >= 0) {
                if (r[s] == carried_row)
                    sum[s] += carried;
                else
                    atomicAdd(y + carried_row, carried);
            }
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const index_t r_below = __shfl_up_sync(SPG_FULL_WARP, r[s], distance);
                const value_t sum_below = __shfl_up_sync(SPG_FULL_WARP, sum[s], distance);
                // Rows are sorted: if the lane `distance` below has this row, so have all between.
                if (lane >= distance && r_below == r[s]) sum[s] += sum_below;
            }
            const index_t r_above = __shfl_down_sync(SPG_FULL_WARP, r[s], 1);
            if (lane < 31 && r[s] >= 0 && r[s] != r_above) atomicAdd(y + r[s], sum[s]);
            carried_row = __shfl_sync(SPG_FULL_WARP, r[s], 31);
            carried = __shfl_sync(SPG_FULL_WARP, sum[s], 31);
        }
    }
    if (lane == 0 && carried_row >= 0) atomicAdd(y + carried_row, carried);
}
