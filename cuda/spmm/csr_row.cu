// csr-row, row-major: Y = A X, A in CSR, neighbouring lanes on a row of A. Column-major: csr_row_columns.cu.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols][k], y [rows][k].
// Mapping  SPG_LANES lanes go over the columns, 16 bytes each (see dense.cuh); SPG_SHARE such groups share a row of A,
//          up to a warp. The lanes of a row read as many entries of A together, one each, and pass them round by
//          shuffles; group g takes entries g, g + SPG_SHARE, ..., SPG_AHEAD rows of X in flight at a time. The
//          groups' sums meet in a tree of shuffles at the end of the row.
// Wins     on rows of about equal length: all reads are whole lines, nothing is staged.
// Loses    on skewed rows: a warp waits for its longest row, the grid for a hub.
// Idea     row splitting: Yang, Buluc, Owens, "Design principles for sparse matrix multiplication on the GPU", 2018.
#include "dense.cuh"

#ifndef SPG_SHARE
#error "the host function defines SPG_SHARE"
#endif
#define SPG_ROW_LANES (SPG_LANES * SPG_SHARE)
#define SPG_STEP (SPG_AHEAD < SPG_LANES ? SPG_AHEAD : SPG_LANES)

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    csr_row(index_t rows, index_t k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
            const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_ROW_LANES;
    const unsigned lane = threadIdx.x % SPG_ROW_LANES, group = lane / SPG_LANES;
    const index_t first = first_column();
    unsigned length = 0;  // rows beyond the last stay, empty: all 32 lanes meet in the shuffles
    if (row < rows) {
        const offset_t begin = row_ptr[row];
        length = (unsigned)(row_ptr[row + 1] - begin);
        col += begin;
        val += begin;
    }
    unsigned longest = length;  // of the warp's rows
#pragma unroll
    for (int distance = SPG_ROW_LANES; distance < 32; distance *= 2) {
        const unsigned other = __shfl_xor_sync(SPG_FULL_WARP, longest, distance);
        longest = other > longest ? other : longest;
    }
    pieces_t sum;
    sum.clear();
    for (unsigned at = 0; at < longest; at += SPG_ROW_LANES) {
        index_t c = 0;
        value_t a = 0;
        if (at + lane < length) {
            c = spg_stream(col + at + lane);
            a = spg_stream(val + at + lane);
        }
        for (unsigned j = 0; j < SPG_LANES && at + j * SPG_SHARE < longest; j += SPG_STEP) {
            pieces_t piece[SPG_STEP];
            value_t factor[SPG_STEP];
#pragma unroll
            for (int u = 0; u < SPG_STEP; ++u) {
                const unsigned from = (j + u) * SPG_SHARE + group;
                const index_t there = __shfl_sync(SPG_FULL_WARP, c, from, SPG_ROW_LANES);
                factor[u] = __shfl_sync(SPG_FULL_WARP, a, from, SPG_ROW_LANES);
                piece[u].load(x + (long long)there * k, first, k, at + from < length);
            }
#pragma unroll
            for (int u = 0; u < SPG_STEP; ++u) sum.add(factor[u], piece[u]);  // beyond the row's end: 0 x 0
        }
    }
#pragma unroll
    for (int distance = SPG_LANES; distance < SPG_ROW_LANES; distance *= 2)
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
            for (int v = 0; v < SPG_VEC; ++v) sum.p[i].v[v] += __shfl_xor_sync(SPG_FULL_WARP, sum.p[i].v[v], distance);
    if (group == 0 && row < rows) sum.store(y + row * k, first, k);
}
