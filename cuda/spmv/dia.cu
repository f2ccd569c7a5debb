// dia: y = A x, A by diagonals, a thread per row (or SPG_ROWS neighbouring rows).
//
// Layout   diag int32 [diagonals], rising, from `lowest` to `highest`; data [slices][diagonals][128], data[s][d][l] is
//          A[i, o + diag[d]] of row i = 128 s + l, 0 where there is no such entry or column. o is the row's origin,
//          i - i % SPG_GROUP. x [cols], y [rows].
// Mapping  a thread takes SPG_ROWS rows and reads their values of SPG_AHEAD diagonals before it uses the first.
//          There are no columns to read: x is read at origin + diag[d], in runs, and comes from the L1 cache.
//          Groups are for dense blocks on diagonals of blocks: a group's rows have their columns in common.
//          One row a thread: with four, x is read in steps of 16 bytes, four times as many L1 wavefronts.
// dia-jit is compiled for the matrix (dia_fixed, SPG_DIAGS): its diagonals are constants.
// Wins     on stencils and bands, of numbers or of blocks: 4 bytes per nonzero instead of CSR's 8.
// Loses    where diagonals have gaps, which are stored, read and multiplied (an Inf in x spreads).
// Idea     Madsen, Rodrigue, Karush, 1976; on GPUs Bell and Garland, SC 2009.
#include "../common/stream.cuh"

#if !defined(SPG_ROWS) || !defined(SPG_GROUP) || !defined(SPG_AHEAD)
#error "the host function defines SPG_ROWS, SPG_GROUP and SPG_AHEAD"
#endif
#define SLICE 128  // as in formats/dia.py

// Where the diagonals of a row begin. Rows are int32, so that their remainder takes no division of 64 bits.
__device__ __forceinline__ long long origin_of(long long row)
{
    return SPG_GROUP == 1 ? row : row - (unsigned)row % SPG_GROUP;
}

struct __align__(SPG_ROWS * sizeof(value_t)) row_values {
    value_t of[SPG_ROWS];
};

// The values of SPG_ROWS rows on one diagonal.
__device__ __forceinline__ row_values stream_rows(const value_t* p)
{
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

// Of SPG_ROWS rows from `row` on; INSIDE: all diagonals meet them inside the matrix, no column needs to be looked at.
template <bool INSIDE>
__device__ __forceinline__ void add_diagonals(value_t (&sum)[SPG_ROWS], long long row, index_t cols, index_t diagonals,
                                              const index_t* __restrict__ diag, const value_t* __restrict__ data,
                                              const value_t* __restrict__ x)
{
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
                for (int u = 0; u < SPG_ROWS; ++u) {
                    const long long c = origin_of(row + u) + shift[k];
                    if (INSIDE || (c >= 0 && c < cols)) sum[u] += a[k].of[u] * x[c];
                }
            }
        data += SPG_AHEAD * SLICE;
    }
}

SPG_KERNEL BOUNDS dia(index_t rows, index_t cols, index_t diagonals, index_t lowest, index_t highest,
                      const index_t* __restrict__ diag, const value_t* __restrict__ data, const value_t* __restrict__ x,
                      value_t* __restrict__ y)
{
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * SPG_ROWS;
    if (row >= rows) return;
    value_t sum[SPG_ROWS] = {};
    data += row / SLICE * SLICE * diagonals + row % SLICE;
    if (origin_of(row) + lowest >= 0 && origin_of(row + SPG_ROWS - 1) + highest < cols)
        add_diagonals<true>(sum, row, cols, diagonals, diag, data, x);
    else
        add_diagonals<false>(sum, row, cols, diagonals, diag, data, x);
#pragma unroll
    for (int u = 0; u < SPG_ROWS; ++u)
        if (row + u < rows) y[row + u] = sum[u];
}

#else

// The same with the diagonals compiled in (-DSPG_DIAGS="D(-300)D(-1)D(0)D(1)D(300)"; nvcc takes no commas): no diagonal
// is looked up, so the loads of x need not wait for anything, and nothing is predicated.
#define D(offset) +1
constexpr int COUNT = 0 SPG_DIAGS;
#undef D

// Diagonal k: a constant wherever k is one.
__host__ __device__ constexpr int fixed_diag(int k)
{
#define D(offset) offset,
    constexpr int list[] = {SPG_DIAGS};
#undef D
    return list[k];
}

constexpr int BATCHES = (COUNT + SPG_AHEAD - 1) / SPG_AHEAD;
constexpr int BATCH = (COUNT + BATCHES - 1) / BATCHES;  // even batches: 27 diagonals are 14 and 13, not 16 and 11

// The sum of a row from diagonal FIRST on; `x` is where its diagonal 0 meets x, `origin` the column there. INSIDE: so
// do all others.
template <int FIRST, bool INSIDE>
__device__ __forceinline__ value_t fixed_sum(const value_t* data, const value_t* x, long long origin, index_t cols,
                                             value_t sum)
{
    if constexpr (FIRST < COUNT) {
        constexpr int N = COUNT - FIRST < BATCH ? COUNT - FIRST : BATCH;
        value_t a[N], at[N];
#pragma unroll
        for (int k = 0; k < N; ++k) a[k] = spg_stream(data + (FIRST + k) * SLICE);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const long long c = origin + fixed_diag(FIRST + k);
            at[k] = INSIDE ? spg_gather(x + fixed_diag(FIRST + k))
                           : spg_gather_if(x + fixed_diag(FIRST + k), c >= 0 && c < cols);
        }
#pragma unroll
        for (int k = 0; k < N; ++k) sum += a[k] * at[k];
        return fixed_sum<FIRST + N, INSIDE>(data, x, origin, cols, sum);
    }
    return sum;
}

// SPG_LINES > 1: a block takes so many runs of neighbouring rows, SPG_STRIDE rows apart, where the farthest diagonals
// of one run meet x in about the places that the main diagonal of the next one does: then they are in L1, and an SM
// asks L2 for x but once, not once for each far diagonal.
#if !defined(SPG_LINES) || !defined(SPG_STRIDE)
#error "the host function defines SPG_LINES and SPG_STRIDE"
#endif

// The launch bounds let the compiler keep the loads of a batch together: left alone it settles for 32 registers
// and four loads at a time.
SPG_KERNEL __launch_bounds__(1024, 1) dia_fixed(index_t rows, index_t cols, const value_t* __restrict__ data,
                                                const value_t* __restrict__ x, value_t* __restrict__ y)
{
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if constexpr (SPG_LINES > 1) {
        const unsigned runs = SPG_STRIDE / blockDim.x;  // side by side, each by a block
        row = (long long)(blockIdx.x / runs) * SPG_LINES * SPG_STRIDE + blockIdx.x % runs * blockDim.x + threadIdx.x;
    }
#pragma unroll 1
    for (int line = 0; line < SPG_LINES && row < rows; ++line, row += SPG_STRIDE) {
        const value_t* mine = data + (row / SLICE * (SLICE * COUNT) + row % SLICE);
        // The last rows of the matrix are the last to be done, so they, too, must issue all their loads together.
        const long long origin = origin_of(row);
        if (origin + fixed_diag(0) >= 0 && origin + fixed_diag(COUNT - 1) < cols)
            y[row] = fixed_sum<0, true>(mine, x + origin, origin, cols, 0);
        else
            y[row] = fixed_sum<0, false>(mine, x + origin, origin, cols, 0);
    }
}

#endif
