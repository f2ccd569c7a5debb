// csr-segmented: y += A x, A in CSR, equal runs of entries to warps, segmented sums, one atomic per cut row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows], zeroed before the launch
//          (that is part of the work, and of the timed run).
//          tile_row int32 [tiles + 1]: the first row that begins in each tile or after it, made once per matrix.
// Mapping  a warp takes a tile of 128 * SPG_QUADS consecutive entries, a lane four of each 128, read as 16 bytes.
//          Where they lie needs no look-up, so entries and table are asked for at once, and x and row offsets at once
//          when those are there. Where a row begins in the tile, its number goes to the entry's place in shared
//          memory (rows without entries begin nowhere). Each lane adds up its four products up to the next row's
//          begin, a segmented scan gathers what lanes have of the same row. Rows that lie in one tile are stored;
//          of others each tile adds its part by an atomic.
// Wins     where rows are of very different lengths: every warp has the same work whatever the rows are like, waits
//          for no other warp, and little shared memory leaves L1 to x.
// Loses    where rows are even and long: a kernel that gives rows to threads has less to do per entry. On matrices
//          with far more empty rows than entries: the rows of a tile are looked at one warp at a time.
// Idea     the segmented reduction of Bell and Garland, SC 2009; row numbers from row begins as in load-balancing
//          search (Baxter, moderngpu, 2013).
#include "quad.cuh"

#ifndef SPG_QUADS
#define SPG_QUADS 2
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 256
#endif
// Threads on an SM that the compiler leaves registers for.
#ifndef SPG_PER_SM
#define SPG_PER_SM 1536
#endif
#define TILE (128 * SPG_QUADS)
#define FULL_WARP 0xffffffffu
#ifndef SPG_HEAD
#define SPG_HEAD int
#endif
typedef SPG_HEAD head_t;
struct __align__(4 * sizeof(head_t)) head_quad { head_t at[4]; };

__device__ __forceinline__ void begins_at(head_quad* head, unsigned place, unsigned number) {
    head[place / 4].at[place % 4] = (head_t)number;
}

// The table: entry t is the first row that begins at entry t * TILE or later.
SPG_KERNEL csr_segmented_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row) {
    const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (tile > tiles) return;
    index_t low = 0, high = rows;
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (row_ptr[middle] < tile * TILE)
            low = middle + 1;
        else
            high = middle;
    }
    tile_row[tile] = low;
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_PER_SM) / SPG_BLOCK)
csr_segmented(offset_t nnz, const index_t* __restrict__ tile_row, const offset_t* __restrict__ row_ptr,
              const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
              value_t* y) {
    SPG_SHARED(head_quad, heads, SPG_BLOCK * SPG_QUADS);
    const unsigned lane = threadIdx.x % 32;
    const long long tile = ((long long)blockIdx.x * SPG_BLOCK + threadIdx.x) / 32;
    const long long first = tile * TILE;
    if (first >= nnz) return;  // a warp goes or stays as a whole
    head_quad* const head = heads + threadIdx.x / 32 * (32 * SPG_QUADS);

    const index_t row_0 = tile_row[tile], row_1 = tile_row[tile + 1];
    const long long mine = first + 4 * lane;
    index_quad c[SPG_QUADS];
    value_quad v[SPG_QUADS];
#pragma unroll
    for (int q = 0; q < SPG_QUADS; ++q) {
        const bool whole = mine + 128 * q + 4 <= nnz;
        c[q] = stream_quad_if(col, mine + 128 * q, whole);
        v[q] = stream_quad_if(val, mine + 128 * q, whole);
        head[32 * q + lane] = {};
    }
    // The matrix's last entries, up to three, are read singly: a quad would be read beyond the arrays.
    if (first + TILE > nnz && (nnz & 3) != 0) {
#pragma unroll
        for (int q = 0; q < SPG_QUADS; ++q)
#pragma unroll
            for (int u = 0; u < 3; ++u) {
                const long long e = mine + 128 * q + u;
                if (e < nnz && e >= (nnz & ~(offset_t)3)) c[q].at[u] = col[e], v[q].at[u] = val[e];
            }
    }
    __syncwarp();
    // The first 32 rows that begin here are asked for ahead of x, and looked at after it has been asked for.
    index_t row = row_0 + lane;
    const offset_t begin = spg_gather_if(row_ptr + row, row < row_1);
    const offset_t next = spg_gather_if(row_ptr + row + 1, row < row_1);
    value_t factor[SPG_QUADS][4];
#pragma unroll
    for (int q = 0; q < SPG_QUADS; ++q)
#pragma unroll
        for (int u = 0; u < 4; ++u) factor[q][u] = spg_gather_if(x + c[q].at[u], mine + 128 * q + u < nnz);
    // An empty row begins where the next one does, and is left out.
    if (next > begin) begins_at(head, (unsigned)(begin - first), lane + 1);
#pragma unroll 2
    while ((row += 32) < row_1) {
        const offset_t from = row_ptr[row];
        if (row_ptr[row + 1] > from) begins_at(head, (unsigned)(from - first), row - row_0 + 1);
    }
    __syncwarp();

    // Rows are counted from 1 for row_0; 0 is the row that goes on from the tile before.
    value_t* const out = y + row_0 - 1;
    unsigned carried_row = 0;  // the same in all lanes
    value_t carried = 0;
#pragma unroll
    for (int q = 0; q < SPG_QUADS; ++q) {
        const head_quad h = head[32 * q + lane];
        // The lane's own four: `lead` belongs to a row that began in a lane below, `run` to `row`, which goes on.
        value_t lead = 0, run = 0;
        unsigned row = 0;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            if (h.at[u]) {
                if (row)
                    out[row] = run;
                else
                    lead = run;
                run = 0;
                row = h.at[u];
            }
            run += v[q].at[u] * factor[q][u];
        }
        const unsigned begins = __ballot_sync(FULL_WARP, row != 0);
        const unsigned below = begins & ((1u << lane) - 1);
        const int since = 31 - __clz(row ? 1u << lane : below | 1);  // the lane where the row that goes on began
        value_t sum = run;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const value_t sum_below = __shfl_up_sync(FULL_WARP, sum, distance);
            if ((int)lane - distance >= since) sum += sum_below;
        }
        const value_t sum_below = __shfl_up_sync(FULL_WARP, sum, 1);
        const unsigned row_below = __shfl_sync(FULL_WARP, row, (31 - __clz(below)) & 31);
        if (row) {  // ends the row before
            if (lane) lead += sum_below;
            if (below)
                out[row_below] = lead;
            else if (carried_row)
                out[carried_row] = lead + carried;
            else if (q > 0 || lane > 0 || !h.at[0])
                atomicAdd(out, lead + carried);
        }
        const unsigned row_last = __shfl_sync(FULL_WARP, row, (31 - __clz(begins)) & 31);
        const value_t sum_last = __shfl_sync(FULL_WARP, sum, 31);
        carried = begins ? sum_last : carried + sum_last;
        carried_row = begins ? row_last : carried_row;
    }
    if (lane == 0) atomicAdd(out + carried_row, carried);
}
