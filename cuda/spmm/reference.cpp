// reference: Y = A X in plain C++, one thread. What every kernel of this folder computes.
//
// Layout   A in CSR: row_ptr int64 [rows + 1], col int32 [nnz], val double [nnz]; x double [cols][k] and y double
//          [rows][k], row-major.
#include <cstdint>

extern "C" void spmm_reference(int32_t rows, int32_t k, const int64_t* row_ptr, const int32_t* col, const double* val,
                               const double* x, double* y)
{
    for (int32_t row = 0; row < rows; ++row) {
        double* sum = y + (int64_t)row * k;
        for (int32_t c = 0; c < k; ++c) sum[c] = 0;
        for (int64_t e = row_ptr[row]; e < row_ptr[row + 1]; ++e) {
            const double* x_row = x + (int64_t)col[e] * k;  // each nonzero asks for a whole row of X
            for (int32_t c = 0; c < k; ++c) sum[c] += val[e] * x_row[c];
        }
    }
}
