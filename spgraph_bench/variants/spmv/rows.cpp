// y = A x in CSR on the CPU, rows shared out among threads: the plain program that a GPU is compared with.
//
// Thread t does rows [first[t], first[t + 1]), which cpu.py cuts so that all have as many entries and rows. Sums are of
// the type of the values, in the order of the columns, as scipy's are.

#include <cstdint>

#define SPG_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Value, class Offset>
void multiply(int threads, const std::int64_t* first, const Offset* row_ptr, const std::int32_t* col, const Value* val,
              const Value* x, Value* y)
{
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; ++thread) {
        for (std::int64_t row = first[thread]; row < first[thread + 1]; ++row) {
            Value sum = 0;
            for (Offset k = row_ptr[row]; k < row_ptr[row + 1]; ++k) sum += val[k] * x[col[k]];
            y[row] = sum;
        }
    }
}

}  // namespace

#define SPG_MULTIPLY(name, Value, Offset)                                                                        \
    SPG_EXPORT void name(int threads, const std::int64_t* first, const Offset* row_ptr, const std::int32_t* col, \
                         const Value* val, const Value* x, Value* y)                                             \
    {                                                                                                            \
        multiply(threads, first, row_ptr, col, val, x, y);                                                       \
    }

SPG_MULTIPLY(spg_rows_float32_int32, float, std::int32_t)
SPG_MULTIPLY(spg_rows_float32_int64, float, std::int64_t)
SPG_MULTIPLY(spg_rows_float64_int32, double, std::int32_t)
SPG_MULTIPLY(spg_rows_float64_int64, double, std::int64_t)
