// pattern-csr: y = A x where all stored values are the same: CSR without values, work divided as by csr-adaptive
//              (adaptive.cuh).
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], `value` the one value; x [cols], y [rows]. The row-block
//          table and the workspace are those of csr-adaptive.
// Mapping  a block takes SPG_TILE rows and entries and reads the entries in quads of 16 bytes. Entries of x are
//          added up, the sum is multiplied once.
// Wins     on unweighted graphs and matrices of one value: half of CSR's bytes in single precision, a third in
//          double.
// Loses    where the gather of x is the bound (large graphs): that stays as it is.
// Idea     GraphBLAS's iso-valued matrices (Davis, "Algorithm 1037: SuiteSparse:GraphBLAS", ACM TOMS 2023).
#include "adaptive.cuh"

#ifndef SPG_FAR
#error "the host function defines SPG_FAR"
#endif

struct pattern_entries {
    const index_t* __restrict__ col;
    const value_t* __restrict__ x;
    value_t value;

    struct quad {
        index_quad col;
        value_quad p;
    };

    __device__ __forceinline__ quad load(long long e) const { return {stream_quad(col, e), {}}; }
    __device__ __forceinline__ void multiply(quad& q) const
    {
#pragma unroll
        for (int u = 0; u < 4; ++u) q.p.at[u] = spg_gather(x + q.col.at[u]);
    }
    __device__ __forceinline__ value_t product(long long e) const { return x[col[e]]; }
    __device__ __forceinline__ value_t finish(value_t sum) const { return value * sum; }
};

SPG_KERNEL pattern_csr_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr, index_t* block_row,
                             offset_t* block_entry, index_t* reaches_in)
{
    adaptive_table(rows, blocks, row_ptr, block_row, block_entry, reaches_in);
}

SPG_KERNEL SPG_ADAPTIVE_BOUNDS pattern_csr(offset_t nnz, const index_t* __restrict__ block_row,
                                           const offset_t* __restrict__ block_entry,
                                           const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
                                           const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                           value_t value, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const pattern_entries a = {col, x, value};
    adaptive_rows<SPG_FAR>(a, nnz, {block_row, block_entry, reaches_in}, {partial, arrived}, row_ptr, y);
}
