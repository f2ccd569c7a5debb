// hyb-atomic: y = A x, A in HYB, with an atomic for each entry of the tail, for contrast to the segmented sums of hyb.
//
// Layout   ell_col, ell_val [slots][rows] as in ell.cu; coo_row, coo_col int32 [tail], coo_val [tail], in any order;
//          x [cols], y [rows].
// Mapping  two launches, which count as one SpMV. hyb_rows: a thread per row writes y (0 where slots is 0).
//          hyb_entries: a thread per entry of the tail adds its product to y by an atomic. The stream orders them.
// Wins     where few rows have a tail, and short ones: no shuffles, and one element at a time is all that there is.
// Loses    where hubs make the tail: all entries of one row meet on one address, one after another. hyb spends one
//          atomic for a row in 32 * steps entries.
// Idea     HYB as it is taught first; the segmented tail is Bell and Garland's (SC 2009).
#include "../common/spg.cuh"

SPG_KERNEL hyb_rows(index_t rows, index_t slots, const index_t* __restrict__ ell_col,
                    const value_t* __restrict__ ell_val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    value_t sum = 0;
    for (long long k = 0; k < slots; ++k) {
        const index_t c = ell_col[k * rows + row];
        if (c < 0) break;  // padding comes last
        sum += ell_val[k * rows + row] * x[c];
    }
    y[row] = sum;
}

SPG_KERNEL hyb_entries(offset_t tail, const index_t* __restrict__ coo_row, const index_t* __restrict__ coo_col,
                       const value_t* __restrict__ coo_val, const value_t* __restrict__ x, value_t* y)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < tail) atomicAdd(y + coo_row[e], coo_val[e] * x[coo_col[e]]);
}
