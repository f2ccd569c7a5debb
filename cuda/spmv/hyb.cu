// hyb: y = A x, A in HYB: the first `slots` entries of every row in ELL, the others in COO.
//
// Layout   ell_col, ell_val [slots][rows] as in ell.cu; coo_row, coo_col int32 [tail], coo_val [tail], sorted
//          by row; x [cols], y [rows].
// Mapping  two launches, which count as one SpMV. hyb_ell: a thread per row writes y (0 where slots is 0).
//          hyb_tail: a warp per 32 * steps entries of the tail adds its sums to y by atomics (one per row and
//          warp, see segmented_sum.cuh). The stream orders them: the tail finds y written.
// Wins     on skewed rows: ELL's coalesced reads for the many short rows, while hubs are spread over warps.
// Loses    on even rows, where ELL alone does; and where the tail is most of the matrix.
// Idea     Bell and Garland, "Implementing sparse matrix-vector multiplication on throughput-oriented
//          processors", SC 2009.
#include "../common/spg.cuh"
#include "ell_row.cuh"
#include "segmented_sum.cuh"

SPG_KERNEL SPG_ROW_BOUNDS(sizeof(value_t) == 8)
    hyb_ell(index_t rows, index_t slots, const index_t* __restrict__ ell_col, values_t ell_val,
            const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = ell_row<sizeof(value_t) == 8>(row, (long long)slots * rows, rows, ell_col, ell_val, x);
}

SPG_KERNEL SPG_SEGMENTED_BOUNDS hyb_tail(offset_t tail, int steps, const index_t* __restrict__ coo_row,
                                         const index_t* __restrict__ coo_col, values_t coo_val,
                                         const value_t* __restrict__ x, value_t* y)
{
    const long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const long long first = warp * 32 * steps;
    if (first < tail) segmented_sum(tail, first, steps, coo_row, coo_col, coo_val, x, y);
}
