// csr-adaptive: y = A x, A in CSR, in tiles of SPG_TILE units of work, whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          Rows and entries count alike: row i begins at cost i + row_ptr[i], its entry e is at cost i + e. So
//          empty rows cannot pile up in one tile, and a tile's share is found by a search for its cost.
//          block_row int32, block_entry offset_t, reaches_in int32 [tiles + 1]: the row-block table, made once
//          per matrix by csr_adaptive_table. partial value_t [2 tiles], arrived unsigned [tiles], all 0:
//          workspace, left as it was found.
// Mapping  tile t has the rows that begin at costs t T to (t + 1) T - 1, T = SPG_TILE. As many blocks as fit on the
//          GPU take tiles in turn. While a block works on one tile, its next tile's entries are on their way into
//          the other half of its shared memory. Products replace the values there; each row is summed by as many
//          threads as there are for it, and by a warp where it is long beside the others.
//          A row longer than SPG_LONG that crosses into the next tile is cut where the cost is a multiple of T. The
//          block that finishes last adds the pieces up, always in the same order: no atomics on values, no zeroed
//          y, one launch, the same bits every time.
// Wins     nearly everywhere: reads are coalesced whatever the row lengths, and no block has much more to do
//          than another.
// Loses    a little on even rows, where ELL and its kin need neither the table nor shared memory.
// Tuned    A block that loads, waits, multiplies, waits, sums and ends keeps the memory busy a third of its life
//          (one tile a block: 72 % of the ceiling on a band). So blocks stay, and copy ahead (cp.async). What a
//          tile needs to know is in a table, and its first row bounds are read a tile ahead as well. Details that
//          were tried are in docs/notebook.md.
// Idea     Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//          format", SC 2014 (CSR-Adaptive); Merrill and Garland, PPoPP 2016 (rows and entries count alike); the
//          last block's sum as in NVIDIA's threadFenceReduction sample.
#include "../common/stream.cuh"

#ifndef SPG_TILE
#define SPG_TILE 2048
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 256
#endif
// Threads on an SM that the compiler leaves registers for.
#ifndef SPG_THREADS
#define SPG_THREADS 1024
#endif
// A longer row is cut where it leaves its tile. Shared memory must hold a whole row of this length besides.
#define SPG_LONG (SPG_TILE / 4)
// Products that one thread adds up before a warp takes the row over.
#define SPG_PATIENCE 32
#define FULL_WARP 0xffffffffu

// Entries that a tile can bring, up to three before its first included (copies start at multiples of 16 bytes).
constexpr int ROOM = SPG_TILE + SPG_LONG + 8;
// Place of value i in shared memory. A gap of 16 bytes every 32 words keeps rows of 8, 16, 32, ... entries, which
// neighbouring threads walk in step, out of each other's banks, and copies of four values in one piece.
#define PLACE(i) ((i) + ((i) >> 5 << 2))
// One half of a block's shared memory: values, then columns.
constexpr int HALF = PLACE(ROOM) * (int)sizeof(value_t) + ROOM * (int)sizeof(index_t);
static_assert(HALF % 16 == 0 && PLACE(ROOM) % 4 == 0, "both halves begin on a boundary of 16 bytes");

// Products that a thread has under way.
constexpr int DEPTH = SPG_TILE / SPG_BLOCK < 8 ? SPG_TILE / SPG_BLOCK : 8;

// The table: entry b for block b, one more for the end.
SPG_KERNEL csr_adaptive_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr,
                              index_t* block_row, offset_t* block_entry, index_t* reaches_in) {
    const long long b = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (b > blocks) return;
    const long long cost = b * SPG_TILE;
    // The first row that begins at this cost or later.
    index_t low = 0, high = rows;
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (middle + (long long)row_ptr[middle] < cost)
            low = middle + 1;
        else
            high = middle;
    }
    const offset_t begin = row_ptr[low];
    block_row[b] = low;
    block_entry[b] = begin;
    // Whether the row before is a long one with entries in this block.
    reaches_in[b] = low > 0 && begin - row_ptr[low - 1] > SPG_LONG && low - 1 + (long long)begin > cost;
}

// Sum over all threads of the block, valid in thread 0; scratch [32]. Ends with all threads past reading it.
__device__ __forceinline__ value_t block_sum(value_t sum, value_t* scratch) {
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0;
        for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
    }
    __syncthreads();
    return sum;
}

// The part of a long row that lies in this tile: entries begin to end - 1 of `row`. All threads call it.
__device__ __forceinline__ void row_piece(index_t row, long long begin, long long end, long long tile, bool is_first, value_t* partial,
                                          unsigned* arrived, const offset_t* row_ptr,
                                          const index_t* col, const value_t* val, const value_t* x, value_t* y,
                                          value_t* scratch, unsigned* ticket) {
    value_t sum = 0;
#pragma unroll 4
    for (long long e = begin + threadIdx.x; e < end; e += SPG_BLOCK) sum += val[e] * x[col[e]];
    sum = block_sum(sum, scratch);
    const long long from = row_ptr[row], to = row_ptr[row + 1];
    const unsigned leader = (unsigned)((row + from) / SPG_TILE);
    const unsigned pieces = (unsigned)((row + to - 1) / SPG_TILE) - leader + 1;
    // Slot 1 of the tile where the row begins (slot 0 may be the end of another one), slot 0 of the others.
    if (threadIdx.x == 0) {
        partial[2 * tile + is_first] = sum;
        __threadfence();  // the piece is in memory before its arrival is counted
        ticket[0] = atomicAdd(arrived + leader, 1u);
    }
    __syncthreads();
    if (ticket[0] == pieces - 1) {
        __threadfence();
        const volatile value_t* all = partial + 2 * (size_t)leader;  // volatile: not from this SM's L1
        sum = 0;
        for (unsigned k = threadIdx.x; k < pieces; k += SPG_BLOCK) sum += all[k ? 2 * k : 1];
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) {
            y[row] = sum;
            arrived[leader] = 0;  // ready for the next launch
        }
    }
    __syncthreads();  // scratch and ticket are free again
}

// What a block must know of a tile.
struct tile_t {
    index_t first, last;  // its rows, the long one at its end left out
    offset_t begin, end;  // their entries
    bool tail, head;      // a piece of the long row before, of the long row at its end
};

__device__ __forceinline__ tile_t look_up(long long tile, const index_t* __restrict__ block_row,
                                          const offset_t* __restrict__ block_entry,
                                          const index_t* __restrict__ reaches_in,
                                          const offset_t* __restrict__ row_ptr) {
    tile_t t;
    t.first = block_row[tile];
    t.last = block_row[tile + 1];
    t.begin = block_entry[tile];
    t.end = block_entry[tile + 1];
    t.tail = reaches_in[tile];
    t.head = reaches_in[tile + 1] && t.last > t.first;
    if (t.head) t.end = row_ptr[--t.last];
    return t;
}

// Copy the tile's entries; entry e goes to place e - base, base = begin rounded down to a multiple of 4.
__device__ __forceinline__ void fetch(const tile_t& t, char* half, offset_t nnz, const index_t* __restrict__ col,
                                      const value_t* __restrict__ val) {
    value_t* values = reinterpret_cast<value_t*>(half);
    index_t* columns = reinterpret_cast<index_t*>(values + PLACE(ROOM));
    const long long base = t.begin & ~(offset_t)3;
    const int count = (int)(t.end - base);
    const int inside = (int)((nnz & ~(offset_t)3) - base);  // quads beyond would leave the arrays
    for (int i = 4 * threadIdx.x; i < count; i += 4 * SPG_BLOCK) {
        if (i < inside) {
            spg_copy_async<16>(columns + i, col + base + i);
            spg_copy_async<16>(values + PLACE(i), val + base + i);
            if constexpr (sizeof(value_t) == 8) spg_copy_async<16>(values + PLACE(i) + 2, val + base + i + 2);
        } else {
            for (int k = i; k < count; ++k) {
                spg_copy_async<4>(columns + k, col + base + k);
                spg_copy_async<sizeof(value_t)>(values + PLACE(k), val + base + k);
            }
        }
    }
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
csr_adaptive(long long tiles, offset_t nnz, const index_t* __restrict__ block_row,
             const offset_t* __restrict__ block_entry, const index_t* __restrict__ reaches_in, value_t* partial,
             unsigned* arrived, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
             const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y) {
    SPG_DYNAMIC_SHARED(char, halves);
    SPG_SHARED(value_t, scratch, 32);
    SPG_SHARED(index_t, long_row, ROOM / SPG_PATIENCE + 1);
    SPG_SHARED(unsigned, counter, 1);
    const int thread = threadIdx.x;
    long long tile = blockIdx.x;
    tile_t now = look_up(tile, block_row, block_entry, reaches_in, row_ptr);
    fetch(now, halves, nnz, col, val);
    spg_copy_commit();
    tile_t next = now;
    if (tile + gridDim.x < tiles) next = look_up(tile + gridDim.x, block_row, block_entry, reaches_in, row_ptr);

    for (int side = 0; tile < tiles; tile += gridDim.x, side ^= 1) {
        const bool more = tile + gridDim.x < tiles;
        if (more) fetch(next, halves + (side ^ 1) * HALF, nnz, col, val);
        spg_copy_commit();
        tile_t after = next;
        if (tile + 2LL * gridDim.x < tiles)
            after = look_up(tile + 2LL * gridDim.x, block_row, block_entry, reaches_in, row_ptr);

        value_t* products = reinterpret_cast<value_t*>(halves + side * HALF);
        const index_t* columns = reinterpret_cast<const index_t*>(products + PLACE(ROOM));
        const long long base = now.begin & ~(offset_t)3;
        const int rows = now.last - now.first, count = (int)(now.end - base);
        int width = 1;  // threads per row
        while (width < 32 && rows * width * 2 <= SPG_BLOCK) width *= 2;
        const int groups = SPG_BLOCK / width, lane = thread % width;
        int row = thread / width;
        int from = 0, to = 0;
        if (row < rows) {
            from = (int)(row_ptr[now.first + row] - base);
            to = (int)(row_ptr[now.first + row + 1] - base);
        }
        if (thread == 0) counter[0] = 0;
        spg_copy_wait<1>();
        __syncthreads();  // everybody's copies of this tile are there

        // Neighbouring threads multiply neighbouring entries: a gather of x touches few lines where A is local.
        for (int i = (int)(now.begin - base) + thread; i < count; i += DEPTH * SPG_BLOCK) {
            value_t at[DEPTH];
#pragma unroll
            for (int k = 0; k < DEPTH; ++k)
                if (i + k * SPG_BLOCK < count) at[k] = spg_gather(x + columns[i + k * SPG_BLOCK]);
#pragma unroll
            for (int k = 0; k < DEPTH; ++k)
                if (i + k * SPG_BLOCK < count) products[PLACE(i + k * SPG_BLOCK)] *= at[k];
        }
        __syncthreads();

        for (int start = 0; start < rows; start += groups) {  // every thread stays until all rows are done
            const bool mine = row < rows;
            // A thread that adds up a thousand products would keep 255 others waiting.
            const bool patient = to - from <= SPG_PATIENCE * width;
            value_t sum = 0;
            if (patient)
                for (int i = from + lane; i < to; i += width) sum += products[PLACE(i)];
            else if (lane == 0)
                long_row[atomicAdd(counter, 1u)] = row;
            for (int distance = width / 2; distance > 0; distance /= 2)
                sum += __shfl_down_sync(FULL_WARP, sum, distance, width);
            if (lane == 0 && mine && patient) y[now.first + row] = sum;
            row += groups;
            from = to = 0;
            if (row < rows) {
                from = (int)(row_ptr[now.first + row] - base);
                to = (int)(row_ptr[now.first + row + 1] - base);
            }
        }
        __syncthreads();
        for (unsigned k = thread / 32; k < counter[0]; k += SPG_BLOCK / 32) {
            const index_t target = now.first + long_row[k];
            const int end = (int)(row_ptr[target + 1] - base);
            value_t sum = 0;
            for (int i = (int)(row_ptr[target] - base) + thread % 32; i < end; i += 32) sum += products[PLACE(i)];
            for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
            if (thread % 32 == 0) y[target] = sum;
        }
        __syncthreads();  // this half and the list may be overwritten

        const long long cost = tile * SPG_TILE;
        if (now.tail) {
            const long long end = cost + SPG_TILE - (now.first - 1);
            row_piece(now.first - 1, cost - (now.first - 1), end < now.begin ? end : now.begin, tile, false, partial,
                      arrived, row_ptr, col, val, x, y, scratch, counter);
        }
        if (now.head)
            row_piece(now.last, now.end, cost + SPG_TILE - now.last, tile, true, partial, arrived, row_ptr, col, val, x,
                      y, scratch, counter);
        now = next;
        next = after;
    }
}
