// adaptive.cuh: csr-adaptive's division of work, for rows whose entries are stored one way or another; shared by
// csr_adaptive.cu, csr_16.cu, pattern_csr.cu and pagerank/pull.cu.
//
// Work     rows and entries count alike: row i begins at cost i + row_ptr[i], its entry e is at cost i + e. So empty
//          rows cannot pile up in one block, and a block's share is found by a search for its cost. Block b does the
//          rows that begin at costs b T to (b + 1) T - 1, T = SPG_TILE.
// Mapping  a block reads its entries in quads, puts the products into shared memory and sums each row from there:
//          with as many threads as there are for it, and again with a warp each for rows that are long beside the
//          others. A row longer than SPG_LONG that crosses into the next block is cut where the cost is a multiple
//          of T. The block that finishes last adds the pieces up, always in the same order: no atomics on values, no
//          zeroed y, one launch, the same bits every time.
// Arrays   of entries begin on a boundary of 16 bytes. The row-block table is made once per matrix.
#pragma once
#include "../common/prefetch.cuh"
#include "../common/warp.cuh"
#include "quad.cuh"

// SPG_THREADS: threads on an SM that the compiler leaves registers for. SPG_DEPTH: quads that a thread works on at a
// time, at most. If more than one, it asks for as many ahead; with one it does with the fewest registers.
#if !defined(SPG_TILE) || !defined(SPG_BLOCK) || !defined(SPG_THREADS) || !defined(SPG_DEPTH)
#error "the host function defines SPG_TILE, SPG_BLOCK, SPG_THREADS and SPG_DEPTH"
#endif
#define SPG_ADAPTIVE_BOUNDS __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
// A longer row is cut where it leaves its block. Shared memory must also hold a whole row of this length.
#define SPG_LONG (SPG_TILE / 2)
// Products that one thread adds up before a warp takes the row over.
#define SPG_PATIENCE 32

// Place of product i in shared memory. One gap every 32 words keeps rows of 8, 16, 32, ... entries, which
// neighbouring threads walk in step, out of each other's banks.
#define PLACE(i) ((i) + ((i) >> 5))

// What differs is how an entry is read. A kernel file gives a type with
//   quad                          what is read of four neighbouring entries; its member value_quad p is for products
//   quad load(long long e)        reads entries e .. e + 3, as data that is read once; e is a multiple of 4
//   void multiply(quad& q)        gathers x and makes q.p their products. Where values are read they are read into p:
//                                 registers for both, 16 of each, would not fit
//   value_t product(long long e)  one entry's product
//   value_t finish(value_t sum)   what is left to do to a row's sum
// and what becomes of a row's sum is up to a second type, here called Rows (row_vector: y of y = A x), with
//   held                          what else is needed for it
//   held ask(index_t row)         asks memory for that, early
//   void put(row, sum, held)      called once for each row, by the one thread that has its sum

constexpr int SHARE = SPG_TILE / (4 * SPG_BLOCK);
constexpr int DEPTH = SHARE < 1 ? 1 : SHARE > SPG_DEPTH ? SPG_DEPTH : SHARE;
constexpr bool AHEAD = SPG_DEPTH > 1;
static_assert((SPG_BLOCK & (SPG_BLOCK - 1)) == 0, "the threads of a row are a power of two, and so are their groups");

// The row-block table: what block b needs to know, and one entry more for the end.
struct row_table {
    const index_t* row;  // first row that begins at cost b T or later
    const offset_t* entry;  // where it begins
    const index_t* reaches_in;  // whether the row before it is a long one with entries in block b
};

// Workspace: partial [2 blocks] and arrived [blocks], all 0, left as they were found.
struct row_pieces {
    value_t* partial;
    unsigned* arrived;
};

__device__ __forceinline__ void adaptive_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr,
                                               index_t* block_row, offset_t* block_entry, index_t* reaches_in)
{
    const long long b = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (b > blocks) return;
    const long long cost = b * SPG_TILE;
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
    reaches_in[b] = low > 0 && begin - row_ptr[low - 1] > SPG_LONG && low - 1 + (long long)begin > cost;
}

// y of y = A x.
struct row_vector {
    value_t* __restrict__ y;

    struct held {};

    __device__ __forceinline__ held ask(index_t) const { return {}; }
    __device__ __forceinline__ void put(index_t row, value_t sum, held) const { y[row] = sum; }
};

// Sum over all threads of the block, valid in thread 0; scratch [32]. Ends with all threads past reading it.
__device__ __forceinline__ value_t block_sum(value_t sum, value_t* scratch)
{
    sum = lane_0_sum(sum);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0;
        sum = lane_0_sum(sum);
    }
    __syncthreads();
    return sum;
}

// Quads i, i + 4 SPG_BLOCK, ... of those that begin below `quads`, counted from entry `base`.
template <class Entries>
__device__ __forceinline__ void ask_quads(const Entries& a, typename Entries::quad (&q)[DEPTH], long long base, int i,
                                          int quads)
{
#pragma unroll
    for (int k = 0; k < DEPTH; ++k)
        if (i + 4 * k * SPG_BLOCK < quads) q[k] = a.load(base + i + 4 * k * SPG_BLOCK);
}

// The part of a long row that is in tile `tile`: entries begin to end - 1 of `row`. All threads call it.
template <class Entries, class Rows>
__device__ __forceinline__ void row_piece(const Entries& a, long long tile, index_t row, long long begin, long long end,
                                          bool is_first, row_pieces pieces_of, const offset_t* row_ptr, Rows& y,
                                          value_t* scratch, unsigned* ticket)
{
    value_t sum = 0;
    // One by one: these loads are not volatile, so the compiler asks for eight entries before it uses the first.
#pragma unroll 8
    for (long long e = begin + threadIdx.x; e < end; e += SPG_BLOCK) sum += a.product(e);
    sum = block_sum(sum, scratch);
    const long long from = row_ptr[row], to = row_ptr[row + 1];
    const unsigned leader = (unsigned)((row + from) / SPG_TILE);
    const unsigned pieces = (unsigned)((row + to - 1) / SPG_TILE) - leader + 1;
    // Slot 1 of the block where the row begins (slot 0 may be the end of another one), slot 0 of the others.
    if (threadIdx.x == 0) {
        pieces_of.partial[2 * (size_t)tile + is_first] = sum;
        __threadfence();  // the piece is in memory before its arrival is counted
        ticket[0] = atomicAdd(pieces_of.arrived + leader, 1u);
        // The last to arrive sees all pieces: a fence in the thread that saw the others' arrivals. The barrier hands
        // that on to the block; a fence behind it, in threads that saw nothing, would not.
        if (ticket[0] == pieces - 1) __threadfence();
    }
    __syncthreads();
    if (ticket[0] == pieces - 1) {
        const volatile value_t* all = pieces_of.partial + 2 * (size_t)leader;  // volatile: not from this SM's L1
        sum = 0;
        for (unsigned k = threadIdx.x; k < pieces; k += SPG_BLOCK) sum += all[k ? 2 * (size_t)k : 1];
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) {
            y.put(row, a.finish(sum), y.ask(row));
            pieces_of.arrived[leader] = 0;  // ready for the next launch
        }
    }
    __syncthreads();  // scratch and ticket are free again
}

// The work of one block: tile `block` of the table. A block that does several tiles waits (__syncthreads) in between.
template <class Entries, class Rows>
__device__ __forceinline__ void adaptive_tile(const Entries& a, long long block, offset_t nnz, row_table table,
                                              row_pieces pieces, const offset_t* __restrict__ row_ptr, Rows& y)
{
    SPG_SHARED(value_t, products, PLACE(SPG_TILE + SPG_LONG + 8));
    SPG_SHARED(index_t, long_row, (SPG_TILE + SPG_LONG) / SPG_PATIENCE + 1);
    SPG_SHARED(unsigned, counter, 1);
    const int thread = threadIdx.x;
    // All in one trip to memory: as plain loads, the one of `stop` would wait to know whether row_ptr has it.
    const index_t first = spg_gather(table.row + block);
    index_t last = spg_gather(table.row + block + 1);
    const offset_t entry = spg_gather(table.entry + block);
    offset_t stop = spg_gather(table.entry + block + 1);
    const bool tail = spg_gather(table.reaches_in + block);
    // No entry is below 0: what reaches in is looked at together with `entry`, whose load ptxas would otherwise put
    // behind that look, into the same register.
    const bool head = spg_gather(table.reaches_in + block + 1) > (entry < 0) && last > first;
    if (head) stop = row_ptr[--last];  // the last row is long: only a piece of it is done here

    if (thread == 0) counter[0] = 0;
    const int rows = last - first;
    // Start at a multiple of 4. Up to three entries before and after belong to other blocks' rows: their products are
    // computed and never looked at.
    const long long base = entry & ~(offset_t)3;
    const int count = (int)(stop - base);
    if (rows > 0) {
        // Quads end at the last multiple of 4 within the arrays; the matrix's last entries are read singly.
        const long long inside = (nnz - base) & ~3LL;
        const int quads = inside < count ? (int)inside : count;
        typename Entries::quad q[DEPTH];
        ask_quads(a, q, base, 4 * thread, quads);
        // The most threads per row, up to a warp, with which one step does all rows. Shifts: a division takes long.
        const int most = __clz(rows - 1) - __clz(SPG_BLOCK) - 1, log = most < 0 ? 0 : most > 5 ? 5 : most;
        const int width = 1 << log, groups = SPG_BLOCK >> log, lane = thread & (width - 1);
        int row = thread >> log;
        // Asked for now, looked at when the products are there: a subtraction here would wait for them.
        offset_t row_from = 0, row_to = 0;
        typename Rows::held held = {};
        if (row < rows) {
            row_from = row_ptr[first + row];
            row_to = row_ptr[first + row + 1];
            held = y.ask(first + row);
        }
        // A loop that is not unrolled: ptxas would move all loads to its begin, ahead of the first gather. With all
        // threads of an SM doing so memory is flooded and idle in turns. The quads ahead are asked for after x:
        // the other way round x of the second quad waits for the first one's products, since registers run out.
#pragma unroll 1
        for (int i = 4 * thread; i < quads; i += 4 * DEPTH * SPG_BLOCK) {
            if (!AHEAD && i != 4 * thread) ask_quads(a, q, base, i, quads);
            typename Entries::quad next[DEPTH];
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) next[k] = q[k];
#pragma unroll
            for (int k = 0; k < DEPTH; ++k)
                if (k == 0 || i + 4 * k * SPG_BLOCK < quads) a.multiply(q[k]);
            if (AHEAD) ask_quads(a, next, base, i + 4 * DEPTH * SPG_BLOCK, quads);
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                const int at = i + 4 * k * SPG_BLOCK;
                if (k == 0 || at < quads) {
#pragma unroll
                    for (int u = 0; u < 4; ++u) products[PLACE(at + u)] = q[k].p.at[u];
                }
            }
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) q[k] = next[k];
        }
        for (int i = quads + thread; i < count; i += SPG_BLOCK) products[PLACE(i)] = a.product(base + i);
        __syncthreads();

        int from = row < rows ? (int)(row_from - base) : 0, to = row < rows ? (int)(row_to - base) : 0;
        for (int start = 0; start < rows; start += groups) {  // every thread stays until all rows are done
            const bool mine = row < rows;
            // A thread that adds up a thousand products would keep the others waiting.
            const bool patient = to - from <= SPG_PATIENCE * width;
            value_t sum = 0;
            if (patient)
                for (int i = from + lane; i < to; i += width) sum += products[PLACE(i)];
            else if (lane == 0)
                long_row[atomicAdd(counter, 1u)] = row;
            for (int distance = width / 2; distance > 0; distance /= 2)
                sum += __shfl_down_sync(SPG_FULL_WARP, sum, distance, width);
            if (lane == 0 && mine && patient) y.put(first + row, a.finish(sum), held);
            row += groups;
            from = to = 0;
            if (row < rows) {
                from = (int)(row_ptr[first + row] - base);
                to = (int)(row_ptr[first + row + 1] - base);
                held = y.ask(first + row);
            }
        }
        __syncthreads();
        for (unsigned k = thread / 32; k < counter[0]; k += SPG_BLOCK / 32) {
            const index_t target = first + long_row[k];
            const int end = (int)(row_ptr[target + 1] - base);
            value_t sum = 0;
            for (int i = (int)(row_ptr[target] - base) + thread % 32; i < end; i += 32) sum += products[PLACE(i)];
            sum = lane_0_sum(sum);
            if (thread % 32 == 0) y.put(target, a.finish(sum), y.ask(target));
        }
    }
    if (!tail && !head) return;

    __syncthreads();  // the products have been read: their place serves as scratch
    const long long cost = block * SPG_TILE;
    if (tail) {
        const long long end = cost + SPG_TILE - (first - 1), begins = table.entry[block];  // no register kept for it
        row_piece(a, block, first - 1, cost - (first - 1), end < begins ? end : begins, false, pieces, row_ptr, y,
                  products, counter);
    }
    if (head)
        row_piece(a, block, last, base + count, cost + SPG_TILE - last, true, pieces, row_ptr, y, products, counter);
}

// y = A x, a tile for each block of the grid. FAR: how many blocks further on one is that starts soon.
template <unsigned FAR, class Entries>
__device__ __forceinline__ void adaptive_rows(const Entries& a, offset_t nnz, row_table table, row_pieces pieces,
                                              const offset_t* __restrict__ row_ptr, value_t* __restrict__ y)
{
    // What the block so many further on has to wait for before it can ask for anything else.
    if (threadIdx.x < 3 && blockIdx.x + FAR < gridDim.x) {
        const unsigned far = blockIdx.x + FAR;
        prefetch(threadIdx.x == 0   ? (const void*)(table.row + far)
                 : threadIdx.x == 1 ? (const void*)(table.entry + far)
                                    : (const void*)(table.reaches_in + far));
    }
    row_vector rows = {y};
    adaptive_tile(a, blockIdx.x, nnz, table, pieces, row_ptr, rows);
}
