// csr-vector: y = A x, A in CSR, a warp per row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
// Mapping  warp i takes row i; lane l its entries l, l + 32, ...; a tree of shuffles adds the 32 partial sums.
// Wins     on rows of a hundred entries and more: a warp reads 32 neighbouring entries at a time.
// Loses    on short rows, where most lanes idle and five shuffles are paid for a handful of products; on hubs,
//          whose single warp the whole grid waits for. The textbook baseline for long rows.
// Idea     Bell and Garland, SC 2009 ("vector" kernel), with shuffles in place of shared memory.
#include "../common/warp.cuh"

SPG_KERNEL csr_vector(index_t rows, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                      const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    if (row >= rows) return;  // the whole warp together: no lane is missing from the shuffles below
    const offset_t begin = row_ptr[row];
    // Within a row 32-bit arithmetic is enough, and unsigned: k + 32 may pass 2^31.
    const unsigned length = (unsigned)(row_ptr[row + 1] - begin);
    col += begin;
    val += begin;
    value_t sum = 0;
    for (unsigned k = lane; k < length; k += 32) sum += val[k] * x[col[k]];
    sum = lane_0_sum(sum);
    if (lane == 0) y[row] = sum;
}
