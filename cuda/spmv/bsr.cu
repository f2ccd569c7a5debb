// bsr: y = A x, A in blocks of SPG_ROWS x SPG_COLS, a thread per row.
//
// Layout   block_ptr offset_t [block rows + 1], block_col int32 [blocks], block_val [blocks][SPG_ROWS][SPG_COLS],
//          blocks filled up with 0; x [cols], y [rows].
// Mapping  SPG_ROWS neighbouring threads share a block row, each takes one of its rows: a block is read by
//          neighbours, and x at a block's columns is read once for all of them.
// Wins     over CSR where the pattern comes in small dense blocks: one column index for a whole block.
// Loses    against bsr-sliced: the block rows of a warp lie apart, so its reads are short pieces.
// Idea     Im and Yelick, "Optimizing sparse matrix computations for register reuse in SPARSITY", ICCS 2001.
// Floors   (3x3-block Poisson of 900^2, float32, H200) 185 MB at 4.6 TB/s: 0.040 ms. Reads that hit a sector
//          in pieces, through L1: 4.05 M blocks x 3 rows x (3 values + 3 x) loads / 32 lanes / 132 SMs, at some
//          two to four cycles each: 0.03 ms.
#include "../common/spg.cuh"

#ifndef SPG_ROWS
#define SPG_ROWS 3
#endif
#ifndef SPG_COLS
#define SPG_COLS 3
#endif

SPG_KERNEL bsr(index_t rows, index_t cols, const offset_t* __restrict__ block_ptr,
               const index_t* __restrict__ block_col, const value_t* __restrict__ block_val,
               const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const long long block_row = row / SPG_ROWS;
    const int i = (int)(row % SPG_ROWS);
    const offset_t end = block_ptr[block_row + 1];
    value_t sum = 0;
    for (offset_t k = block_ptr[block_row]; k < end; ++k) {
        const long long first = (long long)block_col[k] * SPG_COLS;
        const value_t* a = block_val + ((long long)k * SPG_ROWS + i) * SPG_COLS;
        if (first + SPG_COLS <= cols) {
#pragma unroll
            for (int j = 0; j < SPG_COLS; ++j) sum += a[j] * x[first + j];
        } else {  // the last block reaches beyond the matrix
            for (int j = 0; first + j < cols; ++j) sum += a[j] * x[first + j];
        }
    }
    y[row] = sum;
}
