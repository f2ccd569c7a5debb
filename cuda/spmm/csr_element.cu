// csr-element: Y = A X, A in CSR, a thread per element of Y.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz].
//          Row-major: x [cols][k], y [rows][k]. Column-major (by_column): x [k][cols], y [k][rows].
// Mapping  neighbouring threads have neighbouring elements of y: of one row (row-major) or of one column.
// Wins     row-major with many columns, where a warp reads A once and whole lines of X.
// Loses    with few columns: an entry of A is read anew for each of them, and a warp waits for its longest row.
// Idea     the textbook's; csr-scalar of SpMV, once per column.
#include "../common/spg.cuh"

SPG_KERNEL csr_element(index_t rows, index_t cols, index_t k, int by_column, const offset_t* __restrict__ row_ptr,
                       const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
                       value_t* __restrict__ y)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)rows * k) return;
    const long long row = by_column ? at % rows : at / k, column = by_column ? at / rows : at % k;
    value_t sum = 0;
    for (long long e = row_ptr[row]; e < row_ptr[row + 1]; ++e) {
        const long long c = col[e];
        sum += val[e] * x[by_column ? column * cols + c : c * k + column];
    }
    y[at] = sum;
}
