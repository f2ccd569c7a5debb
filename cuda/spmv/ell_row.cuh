// ell_row.cuh: the sum of one row whose entries lie a fixed stride apart; shared by ell.cu, hyb.cu and sell.cu.
#pragma once

// Sum of val[at] * x[col[at]] over at = first, first + stride, ... below end. Padding has column -1 and comes
// last in its row. It is recognised and skipped, never multiplied: 0 * Inf would be NaN.
//
// Four columns and values are read before the first is looked at, so that eight loads are under way at once;
// still, a row stops at most three slots after its end instead of walking through all its padding.
// Positions are 64-bit: slots * rows passes 2^31 long before memory is full.
__device__ __forceinline__ value_t ell_row(long long first, long long end, long long stride,
                                           const index_t* __restrict__ col, const value_t* __restrict__ val,
                                           const value_t* __restrict__ x) {
    const int ahead = 4;
    value_t sum = 0;
    for (long long at = first; at < end; at += ahead * stride) {
        index_t c[ahead];
        value_t v[ahead];
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            const bool inside = at + u * stride < end;
            c[u] = inside ? col[at + u * stride] : -1;
            v[u] = inside ? val[at + u * stride] : 0;
        }
#pragma unroll
        for (int u = 0; u < ahead; ++u)
            if (c[u] >= 0) sum += v[u] * x[c[u]];
        if (c[ahead - 1] < 0) break;
    }
    return sum;
}
