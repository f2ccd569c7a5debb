// ell_row.cuh: the sum of one row whose entries lie a fixed stride apart; shared by ell.cu, hyb.cu and sell.cu.
#pragma once
#include "values.cuh"

// Sum of val[at] * x[col[at]] over at = first, first + stride, ... below end. Padding has column -1 and comes
// last in its row. It is recognised and skipped, never multiplied: 0 * Inf would be NaN.
//
// SPG_AHEAD columns and values are read before the first is looked at, so that twice as many loads are under
// way at once (a slot past the end costs nothing: its loads are switched off); still, a row stops at most that
// many slots after its end instead of walking through all its padding.
// Positions are 64-bit: slots * rows passes 2^31 long before memory is full.
#ifndef SPG_AHEAD
#define SPG_AHEAD 6
#endif

__device__ __forceinline__ value_t ell_row(long long first, long long end, long long stride,
                                           const index_t* __restrict__ col, values_t val,
                                           const value_t* __restrict__ x) {
    value_t sum = 0;
    for (long long at = first; at < end; at += SPG_AHEAD * stride) {
        index_t c[SPG_AHEAD];
        value_t v[SPG_AHEAD];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) {
            const long long slot = at + u * stride;
            c[u] = -1;
            if (slot < end) {
                c[u] = spg_stream(col + slot);
                v[u] = stream_value(val, slot);
            }
        }
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u)
            if (c[u] >= 0) sum += v[u] * x[c[u]];
        if (c[SPG_AHEAD - 1] < 0) break;
    }
    return sum;
}
