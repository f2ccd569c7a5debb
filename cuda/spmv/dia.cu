// dia: y = A x, A by diagonals, a thread per 16 bytes of neighbouring rows.
//
// Layout   diag int32 [diagonals], rising, from `lowest` to `highest`; data [diagonals][pitch], data[d][i] is
//          A[i, i + diag[d]], 0 where there is no such entry or column; pitch is a multiple of 32.
//          x [cols], y [rows].
// Mapping  a thread takes 4 rows (2 in double precision) and reads their values of a diagonal at once. There
//          are no columns to read: x is read at row + diag[d], in runs, and comes from the L1 cache.
// Wins     on stencils and bands: 4 bytes per nonzero instead of CSR's 8.
// Loses    where diagonals have gaps, which are stored, read and multiplied (an Inf in x spreads).
// Idea     Madsen, Rodrigue, Karush, 1976; on GPUs Bell and Garland, SC 2009.
#include "../common/spg.cuh"

#define ROWS (16 / (int)sizeof(value_t))
#define AHEAD 4

struct __align__(16) row_values { value_t of[ROWS]; };

SPG_KERNEL dia(index_t rows, index_t cols, index_t diagonals, index_t lowest, index_t highest, long long pitch,
               const index_t* __restrict__ diag, const value_t* __restrict__ data,
               const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * ROWS;
    if (row >= rows) return;
    value_t sum[ROWS] = {};
    data += row;
    if (row + lowest >= 0 && row + ROWS - 1 + highest < cols) {
        // Every diagonal meets these rows inside the matrix: no column needs to be looked at. Four diagonals
        // are read before the first is used, so that enough loads are under way.
        index_t d = 0;
        for (; d + AHEAD <= diagonals; d += AHEAD) {
            row_values a[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) a[k] = *reinterpret_cast<const row_values*>(data + k * pitch);
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const value_t* at = x + row + diag[d + k];
#pragma unroll
                for (int u = 0; u < ROWS; ++u) sum[u] += a[k].of[u] * at[u];
            }
            data += AHEAD * pitch;
        }
        for (; d < diagonals; ++d, data += pitch) {
            const row_values a = *reinterpret_cast<const row_values*>(data);
            const value_t* at = x + row + diag[d];
#pragma unroll
            for (int u = 0; u < ROWS; ++u) sum[u] += a.of[u] * at[u];
        }
    } else {
        for (index_t d = 0; d < diagonals; ++d, data += pitch) {
            for (int u = 0; u < ROWS; ++u) {
                const long long c = row + u + diag[d];
                if (c >= 0 && c < cols) sum[u] += data[u] * x[c];
            }
        }
    }
    for (int u = 0; u < ROWS; ++u)
        if (row + u < rows) y[row + u] = sum[u];
}
