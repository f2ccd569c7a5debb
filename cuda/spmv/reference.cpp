// reference: y = A x in plain C++, one thread. What every kernel of this folder computes.
//
// Layout   A in CSR: row_ptr int64 [rows + 1], col int32 [nnz], val double [nnz]; x double [cols], y double [rows].
#include <cstdint>

extern "C" void spmv_reference(int32_t rows, const int64_t* row_ptr, const int32_t* col, const double* val,
                               const double* x, double* y)
{
    for (int32_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t e = row_ptr[row]; e < row_ptr[row + 1]; ++e) sum += val[e] * x[col[e]];
        y[row] = sum;
    }
}
