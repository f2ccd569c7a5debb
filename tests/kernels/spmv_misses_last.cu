// csr-scalar with an off-by-one: the last entry of every row of two and more is omitted. For tests only.
#include "common/spg.cuh"

SPG_KERNEL csr_scalar(index_t rows, const offset_t* row_ptr, const index_t* col, const value_t* val,
                      const value_t* x, value_t* y) {
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    value_t sum = 0;
    for (offset_t e = row_ptr[row]; e < row_ptr[row + 1] - (row_ptr[row] + 1 < row_ptr[row + 1]); ++e)
        sum += val[e] * x[col[e]];
    y[row] = sum;
}
