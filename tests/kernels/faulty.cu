// faulty.cu: kernels that go wrong on purpose, each in one way, to test what the runner makes of them.
#include "common/spg.cuh"

// The last nonzero of every row is omitted.
SPG_KERNEL faulty_short(index_t rows, const offset_t* row_ptr, const index_t* col, const value_t* val,
                        const value_t* x, value_t* y)
{
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    value_t sum = 0;
    for (offset_t k = row_ptr[row]; k < row_ptr[row + 1] - 1; ++k) sum += val[k] * x[col[k]];
    y[row] = sum;
}

// Row 7 is never written.
SPG_KERNEL faulty_unwritten(index_t rows, const offset_t* row_ptr, const index_t* col, const value_t* val,
                            const value_t* x, value_t* y)
{
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || row == 7) return;
    value_t sum = 0;
    for (offset_t k = row_ptr[row]; k < row_ptr[row + 1]; ++k) sum += val[k] * x[col[k]];
    y[row] = sum;
}

// Waits for a value that no thread writes.
SPG_KERNEL faulty_hang(volatile value_t* y)
{
    while (y[0] != static_cast<value_t>(1)) {
    }
}

// Writes far outside: a segmentation fault on the host, an illegal address on a GPU.
SPG_KERNEL faulty_wild(value_t* y)
{
    y[1LL << 42] = 1;
}
