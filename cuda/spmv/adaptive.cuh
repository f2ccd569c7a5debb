// adaptive.cuh: equal work for every warp, whatever the rows are like; shared by csr_16.cu and pattern_csr.cu.
//
// As csr-adaptive divides it (csr_adaptive.cu), but among warps, which wait for nobody. An entry costs 1, a row
// SPG_TILE / 32, so a tile of SPG_TILE has at most 32 rows and empty rows cannot pile up in one. A warp takes the rows
// that begin in its tile: its lanes read neighbouring entries and put the products into the warp's part of shared
// memory, and each row is summed from there by as many lanes as there are for it. A row longer than SPG_LONG that
// crosses into the next tile is cut there; the warp that finishes last adds the pieces up.
//
// What differs is how an entry is read. A kernel file gives a type with
//   entry                             what one entry is in memory
//   Entries from(long long e)         the entries from e on
//   entry load(int i, int more)       reads entry i + more of those, as data that is read once; more is a constant,
//                                     so that the addresses of several loads differ by an immediate only
//   value_t product(const entry&)     its product, x gathered
//   value_t finish(value_t sum)       what is left to do to a row's sum
#pragma once
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

// Place of product i in shared memory, with a gap every 32 words against bank conflicts.
#define PLACE(i) ((i) + ((i) >> 5))
constexpr int ROOM = PLACE(SPG_TILE + SPG_LONG) + 1;  // dynamic shared memory: ROOM values a warp

// Entries that a lane loads before it uses the first.
constexpr int DEPTH = 8;

// The table of tiles, made once per matrix; entry t for tile t, one more for the end.
struct tile_table {
    const index_t* row;         // first row that begins in tile t or later
    const offset_t* entry;      // where it begins
    const index_t* reaches_in;  // whether the row before it is a long one with entries in tile t
};

// Workspace: partial [2 tiles] and arrived [tiles], all 0, left as they were found.
struct row_pieces {
    value_t* partial;
    unsigned* arrived;
};

__device__ __forceinline__ void adaptive_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr,
                                               index_t* tile_row, offset_t* tile_entry, index_t* reaches_in) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t > tiles) return;
    const long long cost = t * SPG_TILE;
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
    reaches_in[t] =
        low > 0 && begin - row_ptr[low - 1] > SPG_LONG && (low - 1) * (long long)ROW_COST + begin > cost;
}

// Sum over the lanes of a warp, valid in lane 0.
__device__ __forceinline__ value_t warp_sum(value_t sum) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
    return sum;
}

// The part of a long row that lies in this tile: entries begin to end - 1 of `row`. All lanes call it. The warp that
// finishes last adds the pieces up, always in the same order.
template <class Entries>
__device__ __forceinline__ void row_piece(const Entries& all, index_t row, long long begin, long long end,
                                          long long tile, bool is_first, row_pieces pieces_of,
                                          const offset_t* row_ptr, value_t* y) {
    const int lane = threadIdx.x % 32, count = (int)(end - begin);
    const Entries a = all.from(begin);
    value_t sum = 0;
#pragma unroll 4
    for (int i = lane; i < count; i += 32) sum += a.product(a.load(i, 0));
    sum = warp_sum(sum);
    const long long from = row_ptr[row], to = row_ptr[row + 1], row_cost = row * (long long)ROW_COST;
    const long long leader = (row_cost + from) / SPG_TILE;
    const unsigned pieces = (unsigned)((row_cost + to - 1) / SPG_TILE - leader) + 1;
    unsigned ticket = 0;
    if (lane == 0) {
        // Slot 1 of the tile where the row begins (slot 0 may be the end of another one), slot 0 of the others.
        pieces_of.partial[2 * tile + is_first] = sum;
        __threadfence();  // the piece is in memory before its arrival is counted
        ticket = atomicAdd(pieces_of.arrived + leader, 1u);
    }
    if (__shfl_sync(FULL_WARP, ticket, 0) != pieces - 1) return;
    __threadfence();
    const volatile value_t* parts = pieces_of.partial + 2 * leader;  // volatile: not from this SM's L1
    sum = 0;
    for (unsigned k = lane; k < pieces; k += 32) sum += parts[k ? 2 * (size_t)k : 1];
    sum = warp_sum(sum);
    if (lane == 0) {
        y[row] = a.finish(sum);
        pieces_of.arrived[leader] = 0;  // ready for the next launch
    }
}

// The work of one warp; shared [ROOM * warps of the block].
template <class Entries>
__device__ __forceinline__ void adaptive_rows(const Entries& all, long long tiles, tile_table table, row_pieces pieces,
                                              const offset_t* __restrict__ row_ptr, value_t* __restrict__ y,
                                              value_t* shared) {
    const int lane = threadIdx.x % 32;
    const long long tile = ((long long)blockIdx.x * SPG_BLOCK + threadIdx.x) / 32;
    if (tile >= tiles) return;  // whole warps, and nothing below waits for the block
    value_t* products = shared + threadIdx.x / 32 * ROOM;
    const index_t first = table.row[tile];
    index_t last = table.row[tile + 1];
    const offset_t base = table.entry[tile];
    offset_t stop = table.entry[tile + 1];
    const bool tail = table.reaches_in[tile], head = table.reaches_in[tile + 1] && last > first;
    if (head) stop = row_ptr[--last];  // the last row is long: only a piece of it is done here

    const int rows = last - first, count = (int)(stop - base);
    if (rows > 0) {
        // Lanes per row: a power of 2, and all rows at once.
        const int width = 32 / (rows > 1 ? 1 << (32 - __clz(rows - 1)) : 1);
        const int row = lane / width, part = lane % width;
        // Asked for now, looked at when the products are there: a subtraction here would wait for them.
        offset_t row_from = base, row_to = base;
        if (row < rows) {
            row_from = row_ptr[first + row];
            row_to = row_ptr[first + row + 1];
        }
        const Entries a = all.from(base);
        for (int i = lane; i - lane < count; i += 32 * DEPTH) {
            typename Entries::entry read[DEPTH];
            value_t p[DEPTH];
            if (i - lane + 32 * DEPTH <= count) {  // all lanes have all of them: nothing to ask for each
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) read[k] = a.load(i, 32 * k);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) p[k] = a.product(read[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) products[PLACE(i + 32 * k)] = p[k];
            } else {
                // What is past the end is the last entry once more: its product is stored again, and nothing is
                // predicated.
                int at[DEPTH];
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) at[k] = min(i + 32 * k, count - 1);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) read[k] = a.load(at[k], 0);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) p[k] = a.product(read[k]);
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) products[PLACE(at[k])] = p[k];
            }
        }
        __syncwarp();

        const int from = (int)(row_from - base), to = (int)(row_to - base);
        // A lane that adds up a hundred products alone would keep 31 others waiting.
        const bool patient = to - from <= SPG_PATIENCE * width;
        value_t sum = 0;
        if (patient)
            for (int i = from + part; i < to; i += width) sum += products[PLACE(i)];
        for (int distance = width / 2; distance > 0; distance /= 2)
            sum += __shfl_down_sync(FULL_WARP, sum, distance, width);
        if (part == 0 && row < rows && patient) y[first + row] = a.finish(sum);
        for (unsigned impatient = __ballot_sync(FULL_WARP, !patient && part == 0); impatient;
             impatient &= impatient - 1) {
            const int owner = __ffs((int)impatient) - 1;
            const int begin = __shfl_sync(FULL_WARP, from, owner), end = __shfl_sync(FULL_WARP, to, owner);
            sum = 0;
            for (int i = begin + lane; i < end; i += 32) sum += products[PLACE(i)];
            sum = warp_sum(sum);
            if (lane == 0) y[first + owner / width] = a.finish(sum);
        }
    }

    const long long cost = tile * SPG_TILE;
    if (tail) {
        const long long end = cost + SPG_TILE - (first - 1) * (long long)ROW_COST;
        row_piece(all, first - 1, cost - (first - 1) * (long long)ROW_COST, end < base ? end : base, tile, false, pieces,
                  row_ptr, y);
    }
    if (head)
        row_piece(all, last, stop, cost + SPG_TILE - last * (long long)ROW_COST, tile, true, pieces, row_ptr, y);
}
