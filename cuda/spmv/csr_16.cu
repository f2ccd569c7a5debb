// csr-16: y = A x, A in CSR with 16-bit column offsets, work divided as by csr-adaptive.
//
// Layout   row_ptr offset_t [rows + 1]; offset uint16 [nnz], base int32 [ceil(nnz / 128)], val [nnz]: entry e is
//          in column base[e / 128] + offset[e]. x [cols], y [rows]. The row-block table and the workspace are
//          those of adaptive.cuh.
// Mapping  a block takes about SPG_TILE rows and entries, in quads: 8 bytes of offsets, 16 of values (32 in double
//          precision), and one base that most of a warp share.
// Wins     over csr-adaptive where the bytes of A are the bound: 6 instead of 8 per nonzero in single precision.
// Loses    nothing that was seen; but matrices in which 128 neighbouring entries span more than 65,536 columns
//          cannot be stored so, and those are the ones whose gathers cost most.
// Idea     Kourtis, Goumas, Koziris, "Optimizing sparse matrix-vector multiplication using index and value
//          compression", Computing Frontiers 2008; a base per group as in Monakov and Avetisyan's blocks.
// Floors   (banded, 27 diagonals, 4 M rows, float32, H200) bytes: 108 M x 6 + 108 M / 32 + rows x 12 = 700 MB at
//          4.6 TB/s: 0.152 ms (csr: 0.199). Operations: as csr-adaptive, 108 M products through shared memory
//          (one word written, one read each: 0.03 ms) and their gathers through L1 (27 M quads: 0.06 ms).
#include "adaptive.cuh"

#define GROUP 128

struct narrow_entries {
    const unsigned short* __restrict__ offset;
    const index_t* __restrict__ base;
    const value_t* __restrict__ val;
    const value_t* __restrict__ x;

    struct quad {
        ushort4 offset;
        value_quad val;
        index_t base;
    };

    __device__ __forceinline__ quad load(long long e) const {
        quad q;
        q.offset = spg_stream(reinterpret_cast<const ushort4*>(offset + e));
        q.val = stream_quad(val, e);
        q.base = base[e / GROUP];
        return q;
    }
    __device__ __forceinline__ void multiply(const quad& q, value_t* products) const {
        const value_t* from = x + q.base;
        products[0] = q.val.at[0] * spg_gather(from + q.offset.x);
        products[1] = q.val.at[1] * spg_gather(from + q.offset.y);
        products[2] = q.val.at[2] * spg_gather(from + q.offset.z);
        products[3] = q.val.at[3] * spg_gather(from + q.offset.w);
    }
    __device__ __forceinline__ value_t product(long long e) const {
        return val[e] * x[base[e / GROUP] + (index_t)offset[e]];
    }
    __device__ __forceinline__ value_t finish(value_t sum) const { return sum; }
};

SPG_KERNEL csr_16_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr, index_t* block_row,
                        offset_t* block_entry, index_t* reaches_in) {
    adaptive_table(rows, blocks, row_ptr, block_row, block_entry, reaches_in);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_THREADS / SPG_BLOCK)
csr_16(offset_t nnz, const index_t* __restrict__ block_row, const offset_t* __restrict__ block_entry,
       const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
       const offset_t* __restrict__ row_ptr, const unsigned short* __restrict__ offset,
       const index_t* __restrict__ base, const value_t* __restrict__ val, const value_t* __restrict__ x,
       value_t* __restrict__ y) {
    SPG_SHARED(value_t, products, SPG_ADAPTIVE_PRODUCTS);
    SPG_SHARED(index_t, long_row, SPG_ADAPTIVE_LONG_ROWS);
    SPG_SHARED(unsigned, counter, 1);
    const narrow_entries a = {offset, base, val, x};
    adaptive_rows(a, nnz, {block_row, block_entry, reaches_in}, {partial, arrived}, row_ptr, y, products, long_row,
                  counter);
}
