// csr-subwarp: y = A x, A in CSR, SPG_THREADS (2, 4, 8, 16 or 32) threads per row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
// Mapping  a warp takes 32 / SPG_THREADS neighbouring rows, the threads of a row four entries each per step,
//          in one read of 16 bytes. The first read starts at the multiple of 4 at or below the row's begin;
//          entries outside the row are left out. The host picks the least number of threads that does a row
//          of mean length in one step.
// Wins     on rows of about equal length, short or long: no idle lanes as in csr-vector, no scattered reads as
//          in csr-scalar, many rows under way per warp.
// Loses    on skewed rows: a warp waits for its longest row.
// Idea     Reguly and Giles, "Efficient sparse matrix-vector multiplication on cache-based GPUs", InPar 2012.
#include "../common/spg.cuh"
#include "quad.cuh"

#ifndef SPG_THREADS
#define SPG_THREADS 8
#endif

SPG_KERNEL csr_subwarp(index_t rows, offset_t nnz, const offset_t* __restrict__ row_ptr,
                       const index_t* __restrict__ col, const value_t* __restrict__ val,
                       const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_THREADS;
    const unsigned lane = threadIdx.x % SPG_THREADS;
    offset_t base = 0;
    unsigned skip = 0, stop = 0;  // rows beyond the last stay, empty: all 32 lanes meet in the shuffles
    if (row < rows) {
        const offset_t begin = row_ptr[row];
        skip = (unsigned)(begin & 3);
        base = begin - skip;
        stop = (unsigned)(row_ptr[row + 1] - base);  // unsigned: k may pass 2^31 in the loop below
    }
    value_t sum = 0;
    for (unsigned k = 4 * lane; k < stop; k += 4 * SPG_THREADS) {
        if ((long long)base + k + 4 <= nnz) {
            const index_quad c = read_quad(col + base, k);
            const value_quad v = read_quad(val + base, k);
#pragma unroll
            for (int u = 0; u < 4; ++u)
                if (k + u >= skip && k + u < stop) sum += v.at[u] * x[c.at[u]];
        } else {  // the last entries of the matrix: a whole quad would be read beyond the arrays
#pragma unroll 1
            for (unsigned i = k < skip ? skip : k; i < stop; ++i) sum += (val + base)[i] * x[(col + base)[i]];
        }
    }
#pragma unroll
    for (int distance = SPG_THREADS / 2; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance, SPG_THREADS);
    if (lane == 0 && row < rows) y[row] = sum;
}
