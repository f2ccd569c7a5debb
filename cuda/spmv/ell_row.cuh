// ell_row.cuh: the sum of one row whose entries are a fixed stride apart; shared by ell.cu, hyb.cu and sell.cu.
#pragma once
#include "values.cuh"

// Sum of val[at] * x[col[at]] over at = first, first + stride, ... below end. Padding has column -1 and value 0 and
// comes last in its row. Its column is recognised and 0 taken for x, which may have an Inf: 0 * Inf would be NaN.
//
// SPG_AHEAD columns and values are read before the first is looked at (a slot past the end costs nothing: its loads are
// switched off); still, a row stops at most that many slots after its end instead of walking through all its padding.
// X_LAST: all of them are asked for before the first x. That takes registers, and pays where something else has been
// waited for before (sell) and in double precision; without, ptxas finds an order within 32 registers.
// Positions are 64-bit: slots * rows passes 2^31 long before memory is full.
// SPG_BLOCK: the most threads in a block.
#if !defined(SPG_AHEAD) || !defined(SPG_BLOCK)
#error "the host function defines SPG_AHEAD and SPG_BLOCK"
#endif
// Left alone ptxas settles for 32 registers, and some columns wait for x of others.
#define SPG_ROW_BOUNDS(x_last) __launch_bounds__(SPG_BLOCK, (x_last) ? 1 : SPG_RESIDENT(2048) / SPG_BLOCK)

template <bool X_LAST>
__device__ __forceinline__ value_t ell_row(long long first, long long end, long long stride,
                                           const index_t* __restrict__ col, values_t val, const value_t* __restrict__ x)
{
    value_t sum = 0;
    for (long long at = first; at < end; at += SPG_AHEAD * stride) {
        index_t c[SPG_AHEAD];
        value_t v[SPG_AHEAD];
        if constexpr (X_LAST) {
            value_t factor[SPG_AHEAD];
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) c[u] = spg_stream_if(col + at + u * stride, at + u * stride < end, -1);
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) v[u] = stream_value_if(val, at + u * stride, at + u * stride < end);
            // Ends the row, and keeps ptxas from putting values behind the first x: loads stay on their side of a
            // branch.
            if (c[0] < 0) break;
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) factor[u] = spg_gather_if(x + c[u], c[u] >= 0);
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) sum += v[u] * factor[u];
        } else {
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
        }
        if (c[SPG_AHEAD - 1] < 0) break;
    }
    return sum;
}
