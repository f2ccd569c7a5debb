// ell_row.cuh: the sum of one row of an ELL block, shared by ell.cu and hyb.cu.
#pragma once

// Sum of row `row` of col, val [slots][rows] (slot-major) times x [cols]. Padding has column -1 and comes last
// in its row. It is recognised and skipped, never multiplied: 0 * Inf would be NaN.
//
// Four columns are read before the first is looked at, so that four loads are under way at once; still, a row
// stops at most three slots after its end instead of walking through all its padding.
__device__ __forceinline__ value_t ell_row(index_t row, index_t rows, index_t slots,
                                           const index_t* __restrict__ col, const value_t* __restrict__ val,
                                           const value_t* __restrict__ x) {
    const int ahead = 4;
    const long long stride = rows;  // k * rows + row passes 2^31 long before memory is full
    const long long end = slots * stride;
    value_t sum = 0;
    for (long long at = row; at < end; at += ahead * stride) {
        index_t c[ahead];
#pragma unroll
        for (int u = 0; u < ahead; ++u) c[u] = at + u * stride < end ? col[at + u * stride] : -1;
#pragma unroll
        for (int u = 0; u < ahead; ++u)
            if (c[u] >= 0) sum += val[at + u * stride] * x[c[u]];
        if (c[ahead - 1] < 0) break;
    }
    return sum;
}
