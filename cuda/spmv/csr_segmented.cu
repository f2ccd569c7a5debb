// csr-segmented: y += A x, A in CSR, equal runs of entries to warps, segmented sums, one atomic per cut row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows], zeroed before the launch
//          (that is part of the work, and of the timed run).
//          tile_row int32 [tiles + 1]: the first row that begins in each tile or after it, made once per matrix.
// Mapping  a warp takes a tile of 32 * SPG_STEPS consecutive entries, a lane per entry and step. Where they lie needs
//          no look-up, so entries and table are asked for at once, and x and row offsets at once when those are
//          there. Where a row begins in the tile, its number goes to the entry's place in shared memory (rows without
//          entries begin nowhere). Then step by step a scan that stops at row begins leaves, in the last lane of each
//          row, the sum of the row's entries; a row that goes on in the next step is carried there. Rows that lie in
//          one tile are stored; of others each tile adds its part by an atomic.
// Wins     where rows are of very different lengths: every warp has the same work whatever the rows are like, waits
//          for no other warp, and little shared memory leaves L1 to x.
// Loses    where rows are even: a kernel that gives rows to threads has less to do per entry.
// Tuned    What an SM can miss in L1 at a time decides. Neighbouring entries in neighbouring lanes meet in one line of
//          x where a row is long; four entries a lane in 16 bytes read A in fewer instructions, and lost on rmat
//          graphs (docs/notebook.md, as what else was tried).
// Idea     the segmented reduction of Bell and Garland, SC 2009; row numbers from row begins as in load-balancing
//          search (Baxter, moderngpu, 2013).
#include "../common/stream.cuh"

#ifndef SPG_STEPS
#define SPG_STEPS 4
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 256
#endif
// Threads on an SM that the compiler leaves registers for.
#ifndef SPG_PER_SM
#define SPG_PER_SM 2048
#endif
#define TILE (32 * SPG_STEPS)
// Where more rows begin in a tile, nearly all are empty: the row of each entry is searched for, instead of looking at
// all rows. 16 bits hold the numbers of fewer ones.
#define SPG_WIDE 2048
#define FULL_WARP 0xffffffffu

// The first row from `low` on that begins at entry `e` or later; `high` if none below does.
__device__ __forceinline__ index_t first_row_from(const offset_t* __restrict__ row_ptr, index_t low, index_t high,
                                                  long long e) {
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (row_ptr[middle] < e)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The table: entry t is the first row that begins at entry t * TILE or later.
SPG_KERNEL csr_segmented_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row) {
    const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (tile <= tiles) tile_row[tile] = first_row_from(row_ptr, 0, rows, tile * TILE);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_PER_SM) / SPG_BLOCK)
csr_segmented(offset_t nnz, const index_t* __restrict__ tile_row, const offset_t* __restrict__ row_ptr,
              const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
              value_t* y) {
    SPG_SHARED(unsigned, heads, SPG_BLOCK * SPG_STEPS / 2);  // two numbers of 16 bits in each
    const unsigned lane = threadIdx.x % 32;
    const long long tile = ((long long)blockIdx.x * SPG_BLOCK + threadIdx.x) / 32;
    if (tile * TILE >= nnz) return;  // a warp goes or stays as a whole
    const offset_t first = (offset_t)(tile * TILE);
    const unsigned count = nnz - first < TILE ? (unsigned)(nnz - first) : TILE;
    unsigned* const words = heads + threadIdx.x / 32 * (TILE / 2);
    unsigned short* const head = reinterpret_cast<unsigned short*>(words);

    const index_t row_0 = tile_row[tile], row_1 = tile_row[tile + 1];
    index_t c[SPG_STEPS];
    value_t v[SPG_STEPS];
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s)
        c[s] = 32 * s + lane < count ? spg_stream(col + first + 32 * s + lane) : 0;
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s)
        v[s] = 32 * s + lane < count ? spg_stream(val + first + 32 * s + lane) : 0;
#pragma unroll
    for (int s = 0; s < SPG_STEPS / 2; ++s) words[32 * s + lane] = 0;
    __syncwarp();
    // The first 32 rows that begin here are asked for ahead of x, and looked at after it has been asked for.
    index_t row = row_0 + (index_t)lane;
    const offset_t begin = spg_gather_if(row_ptr + row, row < row_1);
    const offset_t next = spg_gather_if(row_ptr + row + 1, row < row_1);
    value_t factor[SPG_STEPS];
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) factor[s] = spg_gather_if(x + c[s], 32 * s + lane < count);

    // An empty row begins where the next one does, and is left out. Rows are counted from 1 for row_0; 0 is the row
    // that goes on from the tile before.
    if (row_1 - row_0 <= SPG_WIDE) {
        if (next > begin) head[begin - first] = (unsigned short)(lane + 1);
#pragma unroll 1
        while ((row += 32) < row_1) {
            const offset_t from = row_ptr[row];
            if (row_ptr[row + 1] > from) head[from - first] = (unsigned short)(row - row_0 + 1);
        }
    } else {
        // The number is the place itself here, so that 16 bits hold it; see row_of.
#pragma unroll 1
        for (unsigned place = lane; place < count; place += 32) {
            const index_t after = first_row_from(row_ptr, row_0, row_1, first + (long long)place + 1);
            if (after > row_0 && row_ptr[after - 1] == first + (offset_t)place)
                head[place] = (unsigned short)(place + 1);
        }
    }
    __syncwarp();
    const auto row_of = [&](unsigned number) -> index_t {
        if (number == 0 || row_1 - row_0 <= SPG_WIDE) return row_0 - 1 + (index_t)number;
        return first_row_from(row_ptr, row_0, row_1, first + (long long)number) - 1;
    };

    unsigned carried_number = 0;  // the row that goes on and what it has: the same in all lanes
    value_t carried = 0;
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) {
        const unsigned number = head[32 * s + lane];
        const unsigned begins = __ballot_sync(FULL_WARP, number != 0);
        value_t sum = v[s] * factor[s];
        if (lane == 0) {
            if (number == 0)
                sum += carried;
            else if (carried_number)
                y[row_of(carried_number)] = carried;
            else if (s > 0)
                atomicAdd(y + row_0 - 1, carried);
        }
        const unsigned upto = begins & (FULL_WARP >> (31 - lane));
        const int since = upto ? 31 - __clz(upto) : 0;  // where the lane's row begins in this step
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const value_t sum_below = __shfl_up_sync(FULL_WARP, sum, distance);
            if (distance <= (int)lane - since) sum += sum_below;
        }
        unsigned mine = __shfl_sync(FULL_WARP, number, since);
        if (!upto) mine = carried_number;
        if (lane < 31 && (begins >> (lane + 1) & 1)) {  // the row ends in this lane
            if (mine)
                y[row_of(mine)] = sum;
            else
                atomicAdd(y + row_0 - 1, sum);
        }
        carried_number = __shfl_sync(FULL_WARP, mine, 31);
        carried = __shfl_sync(FULL_WARP, sum, 31);
    }
    if (lane == 0) atomicAdd(y + row_of(carried_number), carried);
}
