// bsr: y = A x, A in blocks of SPG_ROWS x SPG_COLS, a thread per row.
//
// Layout   block_ptr offset_t [block rows + 1], block_col int32 [blocks], block_val [blocks][SPG_ROWS][SPG_COLS],
//          blocks filled up with 0; x [cols], y [rows].
// Mapping  SPG_ROWS neighbouring threads share a block row, each takes one of its rows: a block is read by
//          neighbours, and x at a block's columns is read once for all of them.
// Wins     over CSR where the pattern comes in small dense blocks: one column index for a whole block.
// Loses    against bsr-sliced: the block rows of a warp are apart, so its reads are short pieces.
// Idea     Im and Yelick, "Optimizing sparse matrix computations for register reuse in SPARSITY", ICCS 2001.
#include "../common/stream.cuh"

#if !defined(SPG_ROWS) || !defined(SPG_COLS)
#error "the host function defines SPG_ROWS and SPG_COLS"
#endif

// Blocks whose columns and values are loaded together, and then all of their x.
constexpr int AHEAD = SPG_COLS > 3 ? 1 : 6 / SPG_COLS;

// The launch bounds leave registers for that: left alone ptxas settles for 32.
SPG_KERNEL __launch_bounds__(1024, 1)
    bsr(index_t rows, index_t cols, const offset_t* __restrict__ block_ptr, const index_t* __restrict__ block_col,
        const value_t* __restrict__ block_val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const long long block_row = row / SPG_ROWS;
    const int i = (int)(row % SPG_ROWS);
    const offset_t end = block_ptr[block_row + 1];
    value_t sum = 0;
#pragma unroll 1
    for (long long k = block_ptr[block_row]; k < end; k += AHEAD) {
        const value_t* const own = block_val + (k * SPG_ROWS + i) * SPG_COLS;
        index_t c[AHEAD];
        value_t a[AHEAD][SPG_COLS], of[AHEAD][SPG_COLS];
#pragma unroll
        for (int b = 0; b < AHEAD; ++b) c[b] = spg_gather_if(block_col + k + b, b < end - k);
#pragma unroll
        for (int b = 0; b < AHEAD; ++b)
#pragma unroll
            for (int j = 0; j < SPG_COLS; ++j) a[b][j] = spg_gather_if(own + b * SPG_ROWS * SPG_COLS + j, b < end - k);
        if (c[0] < 0) break;  // never; but ptxas moves no load across a branch, so no value waits for a column
        // The last block may reach beyond the matrix: 0 there, as its values are.
#pragma unroll
        for (int b = 0; b < AHEAD; ++b) {
            const long long first = (long long)c[b] * SPG_COLS;
#pragma unroll
            for (int j = 0; j < SPG_COLS; ++j) of[b][j] = spg_gather_if(x + first + j, b < end - k && first + j < cols);
        }
#pragma unroll
        for (int b = 0; b < AHEAD; ++b)
#pragma unroll
            for (int j = 0; j < SPG_COLS; ++j) sum += a[b][j] * of[b][j];
    }
    y[row] = sum;
}
