// csr-16: y = A x, A in CSR with 16-bit column offsets, work divided as by csr-adaptive (adaptive.cuh).
//
// Layout   row_ptr offset_t [rows + 1]; offset uint16 [nnz], base int32 [ceil(nnz / 128)], val [nnz]: entry e is
//          in column base[e / 128] + offset[e]. x [cols], y [rows]. The row-block table and the workspace are
//          those of csr-adaptive.
// Mapping  a block takes SPG_TILE rows and entries and reads the entries in quads: 8 bytes of offsets, 16 of values
//          (32 in double precision), and the base that nearly always all lanes of a warp share.
// Wins     over csr-adaptive where the bytes of A are the bound: 6 instead of 8 per nonzero in single precision.
// Loses    nothing that was seen; but matrices in which 128 neighbouring entries span more than 65,536 columns
//          cannot be stored so, and those are the ones whose gathers cost most.
// Idea     Kourtis, Goumas, Koziris, "Optimizing sparse matrix-vector multiplication using index and value
//          compression", Computing Frontiers 2008; a base per group as in Monakov and Avetisyan's blocks.
#include "values.cuh"
#include "adaptive.cuh"

#ifndef SPG_FAR
#error "the host function defines SPG_FAR"
#endif

// The group of entry e. A shift: a division would see to negative e, too, ahead of each load.
__device__ __forceinline__ long long group_of(long long e) { return e >> 7; }

struct narrow_entries {
    const unsigned short* __restrict__ offset;
    const index_t* __restrict__ base;
    values_t val;
    const value_t* __restrict__ x;

    struct quad {
        int2 offset;  // two in a word, the first one low. Taken apart in `load` they would be waited for there
        index_t base;
        value_quad p;
    };

    __device__ __forceinline__ quad load(long long e) const
    {
        const index_t group_base = spg_gather(base + group_of(e));
        return {spg_stream(reinterpret_cast<const int2*>(offset + e)), group_base, stream_values(val, e)};
    }
    __device__ __forceinline__ void multiply(quad& q) const
    {
        value_t factor[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            const unsigned pair = (unsigned)(u < 2 ? q.offset.x : q.offset.y);
            factor[u] = spg_gather(x + (q.base + (index_t)(u % 2 ? pair >> 16 : pair & 0xffff)));
        }
#pragma unroll
        for (int u = 0; u < 4; ++u) q.p.at[u] *= factor[u];
    }
    __device__ __forceinline__ value_t product(long long e) const
    {
        return value_of(val, e) * x[base[group_of(e)] + offset[e]];
    }
    __device__ __forceinline__ value_t finish(value_t sum) const { return sum; }
};

SPG_KERNEL csr_16_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr, index_t* block_row,
                        offset_t* block_entry, index_t* reaches_in)
{
    adaptive_table(rows, blocks, row_ptr, block_row, block_entry, reaches_in);
}

SPG_KERNEL SPG_ADAPTIVE_BOUNDS csr_16(offset_t nnz, const index_t* __restrict__ block_row,
                                      const offset_t* __restrict__ block_entry, const index_t* __restrict__ reaches_in,
                                      value_t* partial, unsigned* arrived, const offset_t* __restrict__ row_ptr,
                                      const unsigned short* __restrict__ offset, const index_t* __restrict__ base,
                                      values_t val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const narrow_entries a = {offset, base, val, x};
    adaptive_rows<SPG_FAR>(a, nnz, {block_row, block_entry, reaches_in}, {partial, arrived}, row_ptr, y);
}
