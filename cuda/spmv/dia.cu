// dia: y = A x, A by diagonals, a thread per row (or SPG_ROWS neighbouring rows).
//
// Layout   diag int32 [diagonals], rising, from `lowest` to `highest`; data [slices][diagonals][128], data[s][d][l] is
//          A[i, i + diag[d]] of row i = 128 s + l, 0 where there is no such entry or column.
//          x [cols], y [rows].
// Mapping  a thread takes SPG_ROWS rows and reads their values of SPG_AHEAD diagonals before it uses the first.
//          There are no columns to read: x is read at row + diag[d], in runs, and comes from the L1 cache.
//          One row a thread: with four, x is read in steps of 16 bytes, four times as many L1 wavefronts.
// Compiled for the matrix (dia_fixed) where it is large enough to be worth a compilation.
// Wins     on stencils and bands: 4 bytes per nonzero instead of CSR's 8.
// Loses    where diagonals have gaps, which are stored, read and multiplied (an Inf in x spreads).
// Idea     Madsen, Rodrigue, Karush, 1976; on GPUs Bell and Garland, SC 2009.
#include "../common/stream.cuh"

#ifndef SPG_ROWS
#define SPG_ROWS 1
#endif
#define SLICE 128  // as in formats/dia.py
#ifndef SPG_AHEAD
#define SPG_AHEAD 14
#endif

struct __align__(SPG_ROWS * sizeof(value_t)) row_values { value_t of[SPG_ROWS]; };

// The values of SPG_ROWS rows on one diagonal.
__device__ __forceinline__ row_values stream_rows(const value_t* p) {
    row_values r;
    if constexpr (SPG_ROWS == 1) {
        r.of[0] = spg_stream(p);
    } else if constexpr (sizeof(row_values) == 16 && sizeof(value_t) == 4) {
        const float4 q = spg_stream(reinterpret_cast<const float4*>(p));
        const float all[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int u = 0; u < SPG_ROWS; ++u) r.of[u] = (value_t)all[u];
    } else if constexpr (sizeof(row_values) == 16) {
        const double2 q = spg_stream(reinterpret_cast<const double2*>(p));
        const double all[2] = {q.x, q.y};
#pragma unroll
        for (int u = 0; u < SPG_ROWS; ++u) r.of[u] = (value_t)all[u];
    } else {
#pragma unroll
        for (int u = 0; u < SPG_ROWS; ++u) r.of[u] = spg_stream(p + u);
    }
    return r;
}

#ifndef SPG_DIAGS

#ifdef SPG_BLOCK
#define BOUNDS __launch_bounds__(SPG_BLOCK, 1)
#else
#define BOUNDS  // up to 256 threads have registers enough, whatever it takes
#endif

SPG_KERNEL BOUNDS dia(index_t rows, index_t cols, index_t diagonals, index_t lowest, index_t highest,
               const index_t* __restrict__ diag, const value_t* __restrict__ data,
               const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * SPG_ROWS;
    if (row >= rows) return;
    value_t sum[SPG_ROWS] = {};
    data += row / SLICE * SLICE * diagonals + row % SLICE;
    if (row + lowest >= 0 && row + SPG_ROWS - 1 + highest < cols) {
        // Every diagonal meets these rows inside the matrix: no column needs to be looked at.
        x += row;
        for (index_t d = 0; d < diagonals; d += SPG_AHEAD) {
            row_values a[SPG_AHEAD];
            index_t shift[SPG_AHEAD];
#pragma unroll
            for (int k = 0; k < SPG_AHEAD; ++k)
                if (d + k < diagonals) a[k] = stream_rows(data + k * SLICE);
#pragma unroll
            for (int k = 0; k < SPG_AHEAD; ++k)
                if (d + k < diagonals) shift[k] = diag[d + k];
#pragma unroll
            for (int k = 0; k < SPG_AHEAD; ++k)
                if (d + k < diagonals) {
#pragma unroll
                    for (int u = 0; u < SPG_ROWS; ++u) sum[u] += a[k].of[u] * x[shift[k] + u];
                }
            data += SPG_AHEAD * SLICE;
        }
    } else {
        for (index_t d = 0; d < diagonals; ++d, data += SLICE) {
            for (int u = 0; u < SPG_ROWS; ++u) {
                const long long c = row + u + diag[d];
                if (c >= 0 && c < cols) sum[u] += data[u] * x[c];
            }
        }
    }
#pragma unroll
    for (int u = 0; u < SPG_ROWS; ++u)
        if (row + u < rows) y[row + u] = sum[u];
}

#else

// The same with the diagonals compiled in (-DSPG_DIAGS="D(-300)D(-1)D(0)D(1)D(300)"; nvcc takes no commas): no diagonal is looked up, so the
// loads of x need not wait for anything, and nothing is predicated.
#define D(offset) +1
constexpr int COUNT = 0 SPG_DIAGS;
#undef D

// Diagonal k: a constant wherever k is one.
__host__ __device__ constexpr int fixed_diag(int k) {
#define D(offset) offset,
    constexpr int list[] = {SPG_DIAGS};
#undef D
    return list[k];
}

constexpr int BATCHES = (COUNT + SPG_AHEAD - 1) / SPG_AHEAD;
constexpr int BATCH = (COUNT + BATCHES - 1) / BATCHES;  // even batches: 27 diagonals are 14 and 13, not 16 and 11

template <int FIRST>
__device__ __forceinline__ value_t fixed_sum(const value_t* data, const value_t* x, value_t sum) {
    if constexpr (FIRST < COUNT) {
        constexpr int N = COUNT - FIRST < BATCH ? COUNT - FIRST : BATCH;
        value_t a[N], at[N];
#pragma unroll
        for (int k = 0; k < N; ++k) a[k] = spg_stream(data + (FIRST + k) * SLICE);
#pragma unroll
        for (int k = 0; k < N; ++k) at[k] = spg_gather(x + fixed_diag(FIRST + k));
#pragma unroll
        for (int k = 0; k < N; ++k) sum += a[k] * at[k];
        return fixed_sum<FIRST + N>(data, x, sum);
    }
    return sum;
}

// The launch bounds let the compiler keep the loads of a batch together: left alone it settles for 32 registers
// and four loads at a time.
SPG_KERNEL __launch_bounds__(1024, 1) dia_fixed(index_t rows, index_t cols, const value_t* __restrict__ data,
                     const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    value_t sum = 0;
    data += row / SLICE * (SLICE * COUNT) + row % SLICE;
    if (row + fixed_diag(0) >= 0 && row + fixed_diag(COUNT - 1) < cols) {
        sum = fixed_sum<0>(data, x + row, sum);
    } else {
#pragma unroll 1
        for (int d = 0; d < COUNT; ++d) {
            const long long c = row + fixed_diag(d);
            if (c >= 0 && c < cols) sum += data[d * SLICE] * x[c];
        }
    }
    y[row] = sum;
}

#endif
