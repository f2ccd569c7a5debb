// csr-16: y = A x, A in CSR with 16-bit column offsets, warps of equal work (adaptive.cuh).
//
// Layout   row_ptr offset_t [rows + 1]; offset uint16 [nnz], base int32 [ceil(nnz / 128)], val [nnz]: entry e is
//          in column base[e / 128] + offset[e]. x [cols], y [rows]. The table of tiles and the workspace are those
//          of adaptive.cuh.
// Mapping  a warp takes a tile of rows and entries; a lane reads two bytes of column and a value an entry, and the
//          base that nearly always all 32 lanes share.
// Wins     over csr-adaptive where the bytes of A are the bound: 6 instead of 8 per nonzero in single precision.
// Loses    nothing that was seen; but matrices in which 128 neighbouring entries span more than 65,536 columns
//          cannot be stored so, and those are the ones whose gathers cost most.
// Idea     Kourtis, Goumas, Koziris, "Optimizing sparse matrix-vector multiplication using index and value
//          compression", Computing Frontiers 2008; a base per group as in Monakov and Avetisyan's blocks.
// Floors   (banded, 27 diagonals, 4 M rows, float32, H200) bytes: 108 M x 6 + 108 M / 32 + rows x 12 = 700 MB at
//          4.6 TB/s: 0.152 ms (csr: 0.199). Operations: as csr-adaptive, 108 M products through shared memory
//          (one word written, one read each: 0.03 ms) and their gathers through L1 (3.4 M warp reads: 0.03 ms).
#include "adaptive.cuh"

#define GROUP 128

#ifndef SPG_HOST
__device__ __forceinline__ unsigned short spg_stream(const unsigned short* p) {
    unsigned short r;
    asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(r) : "l"(p));
    return r;
}
__device__ __forceinline__ index_t spg_gather(const index_t* p) {
    index_t r;
    asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}
#endif

struct narrow_entries {
    const unsigned short* __restrict__ offset;
    const index_t* __restrict__ base;
    const value_t* __restrict__ val;
    const value_t* __restrict__ x;
    int phase;  // the first entry's place in its group

    struct entry {
        unsigned short offset;
        value_t val;
        index_t base;
    };

    __device__ __forceinline__ narrow_entries from(long long e) const {
        return {offset + e, base + e / GROUP, val + e, x, (int)(e % GROUP)};
    }
    __device__ __forceinline__ entry load(int i, int more) const {
        entry a;
        a.offset = spg_stream(offset + i + more);
        a.val = spg_stream(val + i + more);
        a.base = spg_gather(base + (unsigned)(phase + i + more % GROUP) / GROUP + more / GROUP);
        return a;
    }
    __device__ __forceinline__ value_t product(const entry& a) const {
        return a.val * spg_gather(x + a.base + a.offset);
    }
    __device__ __forceinline__ value_t finish(value_t sum) const { return sum; }
};

SPG_KERNEL csr_16_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row,
                        offset_t* tile_entry, index_t* reaches_in) {
    adaptive_table(rows, tiles, row_ptr, tile_row, tile_entry, reaches_in);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
csr_16(long long tiles, const index_t* __restrict__ tile_row, const offset_t* __restrict__ tile_entry,
       const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
       const offset_t* __restrict__ row_ptr, const unsigned short* __restrict__ offset,
       const index_t* __restrict__ base, const value_t* __restrict__ val, const value_t* __restrict__ x,
       value_t* __restrict__ y) {
    SPG_DYNAMIC_SHARED(value_t, shared);
    const narrow_entries a = {offset, base, val, x, 0};
    adaptive_rows(a, tiles, {tile_row, tile_entry, reaches_in}, {partial, arrived}, row_ptr, y, shared);
}
