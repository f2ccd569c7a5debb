// csr-scalar: y = A x, A in CSR, a thread per row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
// Mapping  thread i walks row i from its first entry to its last.
// Wins     on very short rows (one to four entries), where anything cleverer costs more than it saves.
// Loses    on longer ones: neighbouring threads read entries a row length apart, so that a warp's read touches
//          up to 32 sectors of memory for 32 values. On skewed rows a warp waits for its longest row.
//          The textbook baseline, here to be beaten.
// Idea     Bell and Garland, SC 2009 ("scalar" kernel).
#include "../common/spg.cuh"

SPG_KERNEL csr_scalar(index_t rows, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                      const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const offset_t end = row_ptr[row + 1];
    value_t sum = 0;
    for (offset_t e = row_ptr[row]; e < end; ++e) sum += val[e] * x[col[e]];
    y[row] = sum;
}
