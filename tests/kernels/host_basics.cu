// Small kernels for tests/test_host_device.py.
#include "common/spg.cuh"

SPG_KERNEL axpy(index_t n, value_t a, const value_t* x, value_t* y)
{
    const index_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// A warp per row.
SPG_KERNEL row_sums(index_t rows, const offset_t* row_ptr, const value_t* val, value_t* y)
{
    const index_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    value_t sum = 0;
    for (offset_t k = row_ptr[row] + lane; k < row_ptr[row + 1]; k += 32) sum += val[k];
    for (int delta = 16; delta; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
    if (lane == 0) y[row] = sum;
}

SPG_KERNEL block_sum(index_t n, const value_t* x, value_t* total)
{
    SPG_SHARED(value_t, part, 256);
    const index_t i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : value_t(0);
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}
