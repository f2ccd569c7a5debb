// csr-adaptive: y = A x, A in CSR, every block about SPG_TILE units of work, whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          block_row int32, block_entry offset_t, reaches_in int32 [blocks + 1]: the row-block table, made once
//          per matrix by csr_adaptive_table. partial value_t [2 blocks], arrived unsigned [blocks], all 0:
//          workspace, left as it was found.
// Mapping  that of adaptive.cuh: a block takes SPG_TILE rows and entries, reads the entries in quads of 16 bytes of
//          columns and 16 of values (32 in double precision), and sums rows from shared memory.
// Wins     nearly everywhere: reads are coalesced whatever the row lengths, and no block has much more to do
//          than another.
// Loses    a little on even rows, where ELL and SELL need neither the table nor shared memory.
// Idea     Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//          format", SC 2014 (CSR-Adaptive); Merrill and Garland, PPoPP 2016 (rows and entries count alike); the
//          last block's sum as in NVIDIA's threadFenceReduction sample.
#include "adaptive.cuh"

#ifndef SPG_FAR
#error "the host function defines SPG_FAR"
#endif

struct csr_entries {
    const index_t* __restrict__ col;
    const value_t* __restrict__ val;
    const value_t* __restrict__ x;

    struct quad {
        index_quad col;
        value_quad p;
    };

    __device__ __forceinline__ quad load(long long e) const { return {stream_quad(col, e), stream_quad(val, e)}; }
    __device__ __forceinline__ void multiply(quad& q) const
    {
#pragma unroll
        for (int u = 0; u < 4; ++u) q.p.at[u] *= spg_gather(x + q.col.at[u]);
    }
    __device__ __forceinline__ value_t product(long long e) const { return val[e] * x[col[e]]; }
    __device__ __forceinline__ value_t finish(value_t sum) const { return sum; }
};

SPG_KERNEL csr_adaptive_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr, index_t* block_row,
                              offset_t* block_entry, index_t* reaches_in)
{
    adaptive_table(rows, blocks, row_ptr, block_row, block_entry, reaches_in);
}

SPG_KERNEL SPG_ADAPTIVE_BOUNDS csr_adaptive(offset_t nnz, const index_t* __restrict__ block_row,
                                            const offset_t* __restrict__ block_entry,
                                            const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
                                            const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                            const value_t* __restrict__ val, const value_t* __restrict__ x,
                                            value_t* __restrict__ y)
{
    const csr_entries a = {col, val, x};
    adaptive_rows<SPG_FAR>(a, nnz, {block_row, block_entry, reaches_in}, {partial, arrived}, row_ptr, y);
}
