// csr-adaptive: y = A x, A in CSR, every warp about SPG_TILE units of work, whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          An entry costs 1, a row SPG_TILE / 32: row i begins at cost i SPG_TILE / 32 + row_ptr[i]. So a tile of
//          SPG_TILE has at most 32 rows, and empty rows cannot pile up in one.
//          tile_row int32, tile_entry offset_t, reaches_in int32 [tiles + 1]: the table of tiles, made once per
//          matrix by csr_adaptive_table. partial value_t [2 tiles], arrived unsigned [tiles], all 0: workspace,
//          left as it was found.
// Mapping  a warp takes the rows that begin at costs t T to (t + 1) T - 1, T = SPG_TILE. Neighbouring lanes read
//          neighbouring entries and put the products into the warp's part of shared memory; each row is summed from
//          there by as many lanes as there are for it, and by all lanes where it is long beside the others.
//          A row longer than SPG_LONG that crosses into the next tile is cut where the cost is a multiple of T. The
//          warp that finishes last adds the pieces up, always in the same order: no atomics on values, no zeroed y,
//          one launch, the same bits every time.
// Wins     nearly everywhere: reads are coalesced whatever the row lengths, and no warp has much more to do than
//          another.
// Loses    a little on even rows, where ELL and its kin need neither the table nor shared memory.
// Tuned    Warps, not blocks: a block that loads, waits for all, multiplies, waits, sums, waits keeps the memory
//          busy 72 % of the time on a band, and staying blocks that copy ahead did worse for all their instructions
//          (docs/notebook.md). Warps wait for nobody, so loads, gathers and sums of different warps overlap.
// Idea     Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//          format", SC 2014 (CSR-Adaptive); Merrill and Garland, PPoPP 2016 (rows cost too); the last one's sum as in
//          NVIDIA's threadFenceReduction sample.
#include "../common/stream.cuh"

#ifndef SPG_TILE
#define SPG_TILE 512
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 128
#endif
// Threads on an SM that the compiler leaves registers for.
#ifndef SPG_THREADS
#define SPG_THREADS 1280
#endif
#define ROW_COST (SPG_TILE / 32)
// A longer row is cut where it leaves its tile. Shared memory must hold a whole row of this length besides.
#define SPG_LONG (SPG_TILE / 2)
// Products that one lane adds up before the warp takes the row over.
#define SPG_PATIENCE 24
#define FULL_WARP 0xffffffffu

// Place of product i in shared memory. One gap every 32 words keeps rows of 8, 16, 32, ... entries, which
// neighbouring lanes walk in step, out of each other's banks.
#define PLACE(i) ((i) + ((i) >> 5))
constexpr int ROOM = PLACE(SPG_TILE + SPG_LONG) + 1;  // dynamic shared memory: ROOM values a warp

// Entries that a lane loads before it uses the first.
constexpr int DEPTH = 8;

// The table: entry t for tile t, one more for the end.
SPG_KERNEL csr_adaptive_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row,
                              offset_t* tile_entry, index_t* reaches_in) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t > tiles) return;
    const long long cost = t * SPG_TILE;
    // The first row that begins at this cost or later.
    index_t low = 0, high = rows;
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (middle * (long long)ROW_COST + row_ptr[middle] < cost)
            low = middle + 1;
        else
            high = middle;
    }
    const offset_t begin = row_ptr[low];
    tile_row[t] = low;
    tile_entry[t] = begin;
    // Whether the row before is a long one with entries in this tile (entry e of row i is at cost i R + e).
    reaches_in[t] =
        low > 0 && begin - row_ptr[low - 1] > SPG_LONG && (low - 1) * (long long)ROW_COST + begin > cost;
}

// Sum over the lanes of a warp, valid in lane 0.
__device__ __forceinline__ value_t warp_sum(value_t sum) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
    return sum;
}

// The part of a long row that lies in this tile: entries begin to end - 1 of `row`. All lanes call it.
__device__ __forceinline__ void row_piece(index_t row, long long begin, long long end, long long tile, bool is_first,
                                          value_t* partial, unsigned* arrived, const offset_t* row_ptr,
                                          const index_t* col, const value_t* val, const value_t* x, value_t* y) {
    const int lane = threadIdx.x % 32;
    value_t sum = 0;
#pragma unroll 4
    for (long long e = begin + lane; e < end; e += 32) sum += val[e] * x[col[e]];
    sum = warp_sum(sum);
    const long long from = row_ptr[row], to = row_ptr[row + 1], row_cost = row * (long long)ROW_COST;
    const long long leader = (row_cost + from) / SPG_TILE;
    const unsigned pieces = (unsigned)((row_cost + to - 1) / SPG_TILE - leader) + 1;
    unsigned ticket = 0;
    if (lane == 0) {
        // Slot 1 of the tile where the row begins (slot 0 may be the end of another one), slot 0 of the others.
        partial[2 * tile + is_first] = sum;
        __threadfence();  // the piece is in memory before its arrival is counted
        ticket = atomicAdd(arrived + leader, 1u);
    }
    if (__shfl_sync(FULL_WARP, ticket, 0) != pieces - 1) return;
    __threadfence();
    const volatile value_t* all = partial + 2 * leader;  // volatile: not from this SM's L1
    sum = 0;
    for (unsigned k = lane; k < pieces; k += 32) sum += all[k ? 2 * (size_t)k : 1];
    sum = warp_sum(sum);
    if (lane == 0) {
        y[row] = sum;
        arrived[leader] = 0;  // ready for the next launch
    }
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
csr_adaptive(long long tiles, const index_t* __restrict__ tile_row, const offset_t* __restrict__ tile_entry,
             const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
             const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
             const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y) {
    SPG_DYNAMIC_SHARED(value_t, shared);
    const int lane = threadIdx.x % 32;
    const long long tile = ((long long)blockIdx.x * SPG_BLOCK + threadIdx.x) / 32;
    if (tile >= tiles) return;  // whole warps, and nothing below waits for the block
    value_t* products = shared + threadIdx.x / 32 * ROOM;
    const index_t first = tile_row[tile];
    index_t last = tile_row[tile + 1];
    const offset_t base = tile_entry[tile];
    offset_t stop = tile_entry[tile + 1];
    const bool tail = reaches_in[tile], head = reaches_in[tile + 1] && last > first;
    if (head) stop = row_ptr[--last];  // the last row is long: only a piece of it is done here

    const int rows = last - first, count = (int)(stop - base);
    if (rows > 0) {
        // Lanes per row: a power of 2, and all rows at once.
        const int width = 32 / (rows > 1 ? 1 << (32 - __clz(rows - 1)) : 1);
        const int row = lane / width, part = lane % width;
        int from = 0, to = 0;
        if (row < rows) {
            from = (int)(row_ptr[first + row] - base);
            to = (int)(row_ptr[first + row + 1] - base);
        }
        col += base;
        val += base;
        for (int i = lane; i - lane < count; i += 32 * DEPTH) {
            index_t c[DEPTH];
            value_t v[DEPTH];
            if (i - lane + 32 * DEPTH <= count) {  // all lanes have all of them: nothing to ask for each
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) c[k] = spg_stream(col + i + 32 * k);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) v[k] = spg_stream(val + i + 32 * k);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) v[k] *= spg_gather(x + c[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) products[PLACE(i + 32 * k)] = v[k];
            } else {
                // What is past the end is the last entry once more: its product is stored again, and nothing is
                // predicated.
                int at[DEPTH];
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) at[k] = min(i + 32 * k, count - 1);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) c[k] = spg_stream(col + at[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) v[k] = spg_stream(val + at[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) v[k] *= spg_gather(x + c[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) products[PLACE(at[k])] = v[k];
            }
        }
        __syncwarp();

        // A lane that adds up a hundred products alone would keep 31 others waiting.
        const bool patient = to - from <= SPG_PATIENCE * width;
        value_t sum = 0;
        if (patient)
            for (int i = from + part; i < to; i += width) sum += products[PLACE(i)];
        for (int distance = width / 2; distance > 0; distance /= 2)
            sum += __shfl_down_sync(FULL_WARP, sum, distance, width);
        if (part == 0 && row < rows && patient) y[first + row] = sum;
        for (unsigned impatient = __ballot_sync(FULL_WARP, !patient && part == 0); impatient;
             impatient &= impatient - 1) {
            const int owner = __ffs((int)impatient) - 1;
            const int begin = __shfl_sync(FULL_WARP, from, owner), end = __shfl_sync(FULL_WARP, to, owner);
            sum = 0;
            for (int i = begin + lane; i < end; i += 32) sum += products[PLACE(i)];
            sum = warp_sum(sum);
            if (lane == 0) y[first + owner / width] = sum;
        }
        col -= base;
        val -= base;
    }

    const long long cost = tile * SPG_TILE;
    if (tail) {
        const long long end = cost + SPG_TILE - (first - 1) * (long long)ROW_COST;
        row_piece(first - 1, cost - (first - 1) * (long long)ROW_COST, end < base ? end : base, tile, false, partial,
                  arrived, row_ptr, col, val, x, y);
    }
    if (head)
        row_piece(last, stop, cost + SPG_TILE - last * (long long)ROW_COST, tile, true, partial, arrived, row_ptr, col,
                  val, x, y);
}
