// cheats.cu: a thread per row, right, but for what each name says.
#include "common/spg.cuh"

#define ARGUMENTS                                                                                                    \
    index_t rows, const offset_t *row_ptr, const index_t *col, value_t *val, const value_t *x, value_t *y, int *count

static __device__ value_t row_sum(index_t row, const offset_t* row_ptr, const index_t* col, const value_t* val,
                                  const value_t* x) {
    value_t sum = 0;
    for (offset_t k = row_ptr[row]; k < row_ptr[row + 1]; ++k) sum += val[k] * x[col[k]];
    return sum;
}

SPG_KERNEL cheat_beyond(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = row_sum(row, row_ptr, col, val, x);
    if (row == 0) y[rows] = 1;
}

SPG_KERNEL cheat_before(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = row_sum(row, row_ptr, col, val, x);
    if (row == 0) y[-1] = 1;
}

SPG_KERNEL cheat_reads_outside(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = row_sum(row, row_ptr, col, val, x) + 0 * x[-1];
}

SPG_KERNEL cheat_unreset(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    // Rows are handed out by a counter that starts at 0 in the first run only.
    if (row < rows) {
        const index_t mine = atomicAdd(count, 1);
        if (mine < rows) y[mine] = row_sum(mine, row_ptr, col, val, x);
    }
}

SPG_KERNEL cheat_poisoned_only(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    // What is not poison is taken to be done.
    if (row < rows && y[row] != y[row]) y[row] = row_sum(row, row_ptr, col, val, x);
}

SPG_KERNEL cheat_in_order(ARGUMENTS) {
    SPG_SHARED(value_t, sums, 128);
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x, me = threadIdx.x;
    if (row >= rows) return;
    sums[me] = row_sum(row, row_ptr, col, val, x);
    // No barrier: only in the natural order the thread before has written its sum.
    if (me > 0) y[row - 1] = sums[me - 1];
    if (me == 127 || row == rows - 1) y[row] = sums[me];
}

SPG_KERNEL cheat_spoils(ARGUMENTS) {
    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = row_sum(row, row_ptr, col, val, x);
    // The last row reads this value itself, after which no thread does.
    if (row == rows - 1) val[row_ptr[rows] - 1] += 1000;
}

SPG_KERNEL cheat_one_more(index_t vertices, int* level) { level[vertices] = 0; }
