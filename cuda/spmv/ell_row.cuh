// ell_row.cuh: the sum of one row whose entries lie a fixed stride apart; shared by ell.cu, hyb.cu and sell.cu.
#pragma once
#include "values.cuh"

// Sum of val[at] * x[col[at]] over at = first, first + stride, ... below end. Padding has column -1 and value 0 and
// comes last in its row. Its column is recognised and 0 taken for x, which may have an Inf: 0 * Inf would be NaN.
//
// SPG_AHEAD columns and values are read before the first is looked at, and then all of their x before the sum (a slot
// past the end costs nothing: its loads are switched off); still, a row stops at most that many slots after its end
// instead of walking through all its padding.
// Positions are 64-bit: slots * rows passes 2^31 long before memory is full.
#ifndef SPG_AHEAD
#define SPG_AHEAD 6
#endif
// Left alone ptxas settles for 32 registers, and the loads of a batch do not fit in: some wait for x of others.
#ifndef SPG_BLOCK
#define SPG_BLOCK 512  // the most threads in a block; with more than this, tell
#endif
#define SPG_ROW_BOUNDS __launch_bounds__(SPG_BLOCK, 1)

__device__ __forceinline__ value_t ell_row(long long first, long long end, long long stride,
                                           const index_t* __restrict__ col, values_t val,
                                           const value_t* __restrict__ x) {
    value_t sum = 0;
    for (long long at = first; at < end; at += SPG_AHEAD * stride) {
        index_t c[SPG_AHEAD];
        value_t v[SPG_AHEAD], factor[SPG_AHEAD];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) c[u] = spg_stream_if(col + at + u * stride, at + u * stride < end, -1);
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) v[u] = stream_value_if(val, at + u * stride, at + u * stride < end);
        // Ends the row, and keeps ptxas from putting values behind the first x: loads stay on their side of a branch.
        if (c[0] < 0) break;
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) factor[u] = spg_gather_if(x + c[u], c[u] >= 0);
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) sum += v[u] * factor[u];
        if (c[SPG_AHEAD - 1] < 0) break;
    }
    return sum;
}
