// A wrong kernel for tests: the last column of Y is never written.
#include "common/spg.cuh"

SPG_KERNEL csr_row(index_t rows, index_t, index_t, index_t k, long long, long long, const offset_t* row_ptr,
                   const index_t* col, const value_t* val, const value_t* x, value_t* y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (index_t c = 0; c < k - 1; ++c) {
        value_t sum = 0;
        for (offset_t e = row_ptr[row]; e < row_ptr[row + 1]; ++e) sum += val[e] * x[(long long)col[e] * k + c];
        y[row * k + c] = sum;
    }
}
