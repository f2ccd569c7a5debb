// csr-row, column-major: Y = A X, A in CSR, neighbouring lanes on a row of A. Row-major: csr_row.cu.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [k][cols], y [k][rows].
// Mapping  SPG_TEAM lanes go over the entries of a row as in csr-subwarp of SpMV, each with SPG_WIDTH columns in
//          registers, so that an entry of A is read once for SPG_WIDTH gathers.
// Wins     where neighbouring entries have neighbouring columns (bands, meshes).
// Loses    on skewed rows, and with far columns: a gather moves 32 bytes for each value that is used.
// Idea     row splitting: Yang, Buluc, Owens, "Design principles for sparse matrix multiplication on the GPU", 2018.
#include "../common/stream.cuh"

#if !defined(SPG_TEAM) || !defined(SPG_WIDTH) || !defined(SPG_BLOCK)
#error "the host function defines SPG_TEAM, SPG_WIDTH and SPG_BLOCK"
#endif

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    csr_row_columns(index_t rows, index_t cols, index_t k, const offset_t* __restrict__ row_ptr,
                    const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
                    value_t* __restrict__ y)
{
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_TEAM;
    const unsigned lane = threadIdx.x % SPG_TEAM;
    const index_t first = (index_t)blockIdx.y * SPG_WIDTH;
    const int width = k - first < SPG_WIDTH ? k - first : SPG_WIDTH;
    unsigned length = 0;
    if (row < rows) {
        const offset_t begin = row_ptr[row];
        length = (unsigned)(row_ptr[row + 1] - begin);
        col += begin;
        val += begin;
    }
    x += (long long)first * cols;
    value_t sum[SPG_WIDTH];
#pragma unroll
    for (int w = 0; w < SPG_WIDTH; ++w) sum[w] = 0;
    for (unsigned e = lane; e < length; e += SPG_TEAM) {
        const value_t a = spg_stream(val + e);
        const value_t* from = x + spg_stream(col + e);
        value_t gathered[SPG_WIDTH];
#pragma unroll
        for (int w = 0; w < SPG_WIDTH; ++w) gathered[w] = w < width ? from[(long long)w * cols] : 0;
#pragma unroll
        for (int w = 0; w < SPG_WIDTH; ++w)
            if (w < width) sum[w] += a * gathered[w];  // never a x 0 beyond column k: a may be Inf
    }
#pragma unroll
    for (int w = 0; w < SPG_WIDTH; ++w) {
#pragma unroll
        for (int distance = SPG_TEAM / 2; distance > 0; distance /= 2)
            sum[w] += __shfl_xor_sync(SPG_FULL_WARP, sum[w], distance);
        if (w % SPG_TEAM == lane && w < width && row < rows) y[(long long)(first + w) * rows + row] = sum[w];
    }
}
