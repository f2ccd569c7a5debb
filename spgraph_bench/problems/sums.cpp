// What the checks of products do with every value, entry or sum: see compiled.py.
//
// Each function does a range, so that several threads share the work. Arrays are numpy's, by address.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../csr.hpp"

namespace {

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;

// An integer from 1 to `most` that is a function of the value's bits; 0 for 0 and -0. No branch and 32 bits where they
// are enough, so that compilers make vectors of it.
template <class Value>
int32_t integer_of(Value value, uint32_t key, uint32_t most)
{
    std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t> pattern;
    std::memcpy(&pattern, &value, sizeof value);
    auto bits = static_cast<uint32_t>(pattern);
    if constexpr (sizeof(Value) == 8) bits ^= static_cast<uint32_t>(pattern >> 32);
    bits *= key | 1;
    bits = (bits ^ (bits >> 15)) * 0x2C1B3C6D;
    bits ^= bits >> 13;
    const auto drawn = static_cast<int32_t>(static_cast<uint64_t>(bits) * most >> 32) + 1;
    return value == 0 ? 0 : drawn;
}

template <class Value>
void small_values(const Value* values, int64_t first, int64_t last, int64_t key, int64_t most, Value* out)
{
    for (int64_t i = first; i < last; ++i) {
        out[i] = static_cast<Value>(integer_of(values[i], static_cast<uint32_t>(key), static_cast<uint32_t>(most)));
    }
}

// Every sum is exact, so `one`, the integer of all entries where A has no values, may be taken out of it.
template <class Value>
void integer_sums(const matrix* a, int64_t first, int64_t last, int64_t key, int64_t most, int64_t one, const double* x,
                  int64_t columns, double* out)
{
    for (int64_t row = first; row < last; ++row) {
        double* const sums = out + row * columns;
        for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            const auto value =
                a->values ? static_cast<double>(integer_of(static_cast<Value>(a->values[entry]),
                                                           static_cast<uint32_t>(key), static_cast<uint32_t>(most)))
                          : static_cast<double>(one);
            const double* const factors = x + a->col_idx[entry] * columns;
            for (int64_t j = 0; j < columns; ++j) sums[j] += value * factors[j];
        }
    }
}

// limits: factor, eps, what underflow may cost, largest. found: 1 as long as all are right, place of the largest
// ratio of error to bound, that ratio; of equal ratios the first place remains.
template <class Value>
void judge(const Value* y, int64_t row_step, int64_t column_step, const double* r, const double* absax,
           const int64_t* lengths, int64_t first, int64_t last, int64_t columns, const double* limits, double* found)
{
    const double factor = limits[0], eps = limits[1], tiny = limits[2], largest = limits[3];
    for (int64_t row = first; row < last; ++row) {
        const auto length = static_cast<double>(lengths[row]);
        const double slack = static_cast<double>(lengths[row] + 2) * eps;
        for (int64_t j = 0; j < columns; ++j) {
            const int64_t place = row * columns + j;
            const auto is = static_cast<double>(y[row * row_step + j * column_step]);
            const double error = std::fabs(is - r[place]);
            const double bound = factor * slack * absax[place] + length * tiny;
            // False also for a NaN; what may overflow has rules of its own.
            if (!(error <= bound) || !(absax[place] * (1 + slack) < largest)) {
                found[0] = 0;
                return;
            }
            const double ratio = bound > 0 ? error / bound : 0;
            if (ratio > found[2]) {
                found[1] = static_cast<double>(place);
                found[2] = ratio;
            }
        }
    }
}

}  // namespace

// `out` gets the integers in place of values [first, last).
SPG_EXPORT void spg_small_values_float(const float* values, int64_t first, int64_t last, int64_t key, int64_t most,
                                       float* out)
{
    small_values(values, first, last, key, most, out);
}

SPG_EXPORT void spg_small_values_double(const double* values, int64_t first, int64_t last, int64_t key, int64_t most,
                                        double* out)
{
    small_values(values, first, last, key, most, out);
}

// Rows [first, last) of A X with those integers for the values of A in the type: `x` and `out` have `columns` columns.
SPG_EXPORT void spg_integer_sums_float(const matrix* a, int64_t first, int64_t last, int64_t key, int64_t most,
                                       int64_t one, const double* x, int64_t columns, double* out)
{
    integer_sums<float>(a, first, last, key, most, one, x, columns, out);
}

SPG_EXPORT void spg_integer_sums_double(const matrix* a, int64_t first, int64_t last, int64_t key, int64_t most,
                                        int64_t one, const double* x, int64_t columns, double* out)
{
    integer_sums<double>(a, first, last, key, most, one, x, columns, out);
}

// Whether sums in rows [first, last) are within their bounds; where one is not, or may overflow, numpy says more.
SPG_EXPORT void spg_judge_float(const float* y, int64_t row_step, int64_t column_step, const double* r,
                                const double* absax, const int64_t* lengths, int64_t first, int64_t last,
                                int64_t columns, const double* limits, double* found)
{
    judge(y, row_step, column_step, r, absax, lengths, first, last, columns, limits, found);
}

SPG_EXPORT void spg_judge_double(const double* y, int64_t row_step, int64_t column_step, const double* r,
                                 const double* absax, const int64_t* lengths, int64_t first, int64_t last,
                                 int64_t columns, const double* limits, double* found)
{
    judge(y, row_step, column_step, r, absax, lengths, first, last, columns, limits, found);
}
