// pattern-csr: y = A x where all stored values are the same: CSR without values, warps of equal
//              work (adaptive.cuh).
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], `value` the one value; x [cols], y [rows]. The table of
//          tiles and the workspace are those of adaptive.cuh.
// Mapping  a warp takes a tile of rows and entries, a lane an entry at a time. Entries of x are added up, the sum is
//          multiplied once.
// Wins     on unweighted graphs and matrices of one value: half of CSR's bytes in single precision, a third in
//          double.
// Loses    where the gather of x is the bound (large graphs): that stays as it is.
// Idea     GraphBLAS's iso-valued matrices (Davis, "Algorithm 1037: SuiteSparse:GraphBLAS", ACM TOMS 2023).
// Floors   (rmat22, float32, H200) bytes: 65.2 M x 4 + rows x 12 = 311 MB at 4.6 TB/s: 0.068 ms. Sectors: 65.2 M
//          gathers of 32 bytes from L2 where L1 does not help, at 4.6 TB/s: up to 0.45 ms; that is the bound.
#include "adaptive.cuh"

struct pattern_entries {
    const index_t* __restrict__ col;
    const value_t* __restrict__ x;
    value_t value;

    typedef index_t entry;

    __device__ __forceinline__ pattern_entries from(long long e) const { return {col + e, x, value}; }
    __device__ __forceinline__ entry load(int i, int more) const { return spg_stream(col + i + more); }
    __device__ __forceinline__ value_t product(const entry& c) const { return spg_gather(x + c); }
    __device__ __forceinline__ value_t finish(value_t sum) const { return value * sum; }
};

SPG_KERNEL pattern_csr_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row,
                             offset_t* tile_entry, index_t* reaches_in) {
    adaptive_table(rows, tiles, row_ptr, tile_row, tile_entry, reaches_in);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
pattern_csr(long long tiles, const index_t* __restrict__ tile_row, const offset_t* __restrict__ tile_entry,
            const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
            const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col, value_t value,
            const value_t* __restrict__ x, value_t* __restrict__ y) {
    SPG_DYNAMIC_SHARED(value_t, shared);
    const pattern_entries a = {col, x, value};
    adaptive_rows(a, tiles, {tile_row, tile_entry, reaches_in}, {partial, arrived}, row_ptr, y, shared);
}
