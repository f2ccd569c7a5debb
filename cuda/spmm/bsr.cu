// bsr: Y = A X, A in blocks of SPG_BLOCK_ROWS x SPG_BLOCK_COLS, neighbouring lanes on a block row.
//
// Layout   block_ptr offset_t [block rows + 1], block_col int32 [blocks], block_val [blocks][SPG_BLOCK_ROWS]
//          [SPG_BLOCK_COLS], blocks filled up with 0; x [cols][k], y [rows][k], row-major.
//          (Column-major: X is transposed into a workspace first and Y out of one afterwards, in the same run.)
// Mapping  SPG_LANES lanes take a block row and go over the columns, 16 bytes each (see dense.cuh). The rows of X
//          that a block needs are all on their way before the first product; each is used for SPG_BLOCK_ROWS rows
//          of Y, whose sums are in registers. The next block's column is read one block ahead.
// Wins     where the pattern comes in small dense blocks: a row of X is fetched once for SPG_BLOCK_ROWS nonzeros
//          instead of once for each, and 4 bytes of index serve a whole block.
// Loses    on patterns that fill blocks badly: fill costs bytes and arithmetic like any entry.
// Idea     Im and Yelick, "Optimizing sparse matrix computations for register reuse in SPARSITY", ICCS 2001.
#include "dense.cuh"
#include "transpose.cuh"

#if !defined(SPG_BLOCK_ROWS) || !defined(SPG_BLOCK_COLS)
#error "the host function defines SPG_BLOCK_ROWS and SPG_BLOCK_COLS"
#endif

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    bsr(index_t rows, index_t cols, index_t k, const offset_t* __restrict__ block_ptr,
        const index_t* __restrict__ block_col, const value_t* __restrict__ block_val, const value_t* __restrict__ x,
        value_t* __restrict__ y)
{
    const long long block_row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_LANES;
    const long long row = block_row * SPG_BLOCK_ROWS;
    if (row >= rows) return;
    const index_t first = first_column();
    pieces_t sum[SPG_BLOCK_ROWS];
#pragma unroll
    for (int i = 0; i < SPG_BLOCK_ROWS; ++i) sum[i].clear();
    const offset_t end = block_ptr[block_row + 1];
    offset_t e = block_ptr[block_row];
    index_t next = e < end ? block_col[e] : 0;
    for (; e < end; ++e) {
        const long long top = (long long)next * SPG_BLOCK_COLS;  // the block's first row of X
        const value_t* a = block_val + (long long)e * (SPG_BLOCK_ROWS * SPG_BLOCK_COLS);
        if (e + 1 < end) next = block_col[e + 1];
        pieces_t piece[SPG_BLOCK_COLS];
#pragma unroll
        for (int j = 0; j < SPG_BLOCK_COLS; ++j)  // a block may reach beyond the matrix
            piece[j].load(x + (top + j) * k, first, k, top + j < cols);
#pragma unroll
        for (int i = 0; i < SPG_BLOCK_ROWS; ++i)
#pragma unroll
            for (int j = 0; j < SPG_BLOCK_COLS; ++j) sum[i].add(a[i * SPG_BLOCK_COLS + j], piece[j]);
    }
#pragma unroll
    for (int i = 0; i < SPG_BLOCK_ROWS; ++i)
        if (row + i < rows) sum[i].store(y + (row + i) * k, first, k);
}
