// A CSR matrix as threads.py hands it to compiled code, and what marks a function that Python calls.
#pragma once

#include <cstdint>

#define SPG_EXPORT extern "C" __attribute__((visibility("default")))

struct matrix {
    std::int64_t rows, cols;
    const std::int64_t* row_ptr;
    const std::int32_t* col_idx;
    const double* values;  // null: every entry is 1
};
