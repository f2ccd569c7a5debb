// csr-adaptive: y = A x, A in CSR, every block about SPG_TILE units of work, whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          Rows and entries count alike: row i begins at cost i + row_ptr[i], its entry e is at cost i + e. So
//          empty rows cannot pile up in one block, and a block's share is found by a search for its cost.
//          block_row int32, block_entry offset_t, reaches_in int32 [blocks + 1]: the row-block table, made once
//          per matrix by csr_adaptive_table. partial value_t [2 blocks], arrived unsigned [blocks], all 0:
//          workspace, left as it was found.
// Mapping  block b does the rows that begin at costs b T to (b + 1) T - 1, T = SPG_TILE. It reads their entries
//          in runs of 16 bytes, puts the products into shared memory and sums each row from there: with as many
//          threads as there are for it, and again with a warp each for rows that are long beside the others.
//          A row longer than SPG_LONG that crosses into the next block is cut where the cost is a multiple of
//          T. The block that finishes last adds the pieces up, always in the same order: no atomics on values,
//          no zeroed y, one launch, the same bits every time.
// Wins     nearly everywhere: reads are coalesced whatever the row lengths, and no block has much more to do
//          than another.
// Loses    a little on even rows, where ELL and its kin need neither the table nor shared memory.
// Tuned    A block is over after about five round trips to memory, so it is their number that counts: the table
//          holds the first entry too (one trip less), and row bounds are read before the products are there
//          (another). docs/notebook.md has what was tried and did worse: entries one by one instead of four in 16
//          bytes, blocks that stay and copy ahead, tiles for warps instead of blocks.
// Idea     Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//          format", SC 2014 (CSR-Adaptive); Merrill and Garland, PPoPP 2016 (rows and entries count alike); the
//          last block's sum as in NVIDIA's threadFenceReduction sample.
#include "quad.cuh"

#ifndef SPG_TILE
#define SPG_TILE 2048
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 128
#endif
// Threads on an SM that the compiler leaves registers for.
#ifndef SPG_THREADS
#define SPG_THREADS 1024
#endif
// A longer row is cut where it leaves its block. Shared memory must hold a whole row of this length besides.
#define SPG_LONG (SPG_TILE / 2)
// Products that one thread adds up before a warp takes the row over.
#define SPG_PATIENCE 32
#define FULL_WARP 0xffffffffu

// Place of product i in shared memory. One gap every 32 words keeps rows of 8, 16, 32, ... entries, which
// neighbouring threads walk in step, out of each other's banks.
#define PLACE(i) ((i) + ((i) >> 5))

// Quads that a thread loads before it uses the first.
constexpr int DEPTH = SPG_TILE / (4 * SPG_BLOCK) < 1 ? 1 : SPG_TILE / (4 * SPG_BLOCK) > 4 ? 4 : SPG_TILE / (4 * SPG_BLOCK);

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

// The part of a long row that lies in this block: entries begin to end - 1 of `row`. All threads call it.
__device__ __forceinline__ void row_piece(index_t row, long long begin, long long end, bool is_first, offset_t nnz,
                                          value_t* partial, unsigned* arrived, const offset_t* row_ptr,
                                          const index_t* col, const value_t* val, const value_t* x, value_t* y,
                                          value_t* scratch, unsigned* ticket) {
    value_t sum = 0;
#pragma unroll 2
    for (long long e = (begin & ~3LL) + 4 * threadIdx.x; e < end; e += 4 * SPG_BLOCK) {
        if (e + 4 <= nnz) {
            const index_quad c = read_quad(col, e);
            const value_quad v = read_quad(val, e);
#pragma unroll
            for (int u = 0; u < 4; ++u)
                if (e + u >= begin && e + u < end) sum += v.at[u] * x[c.at[u]];
        } else {
#pragma unroll 1
            for (long long k = e < begin ? begin : e; k < end; ++k) sum += val[k] * x[col[k]];
        }
    }
    sum = block_sum(sum, scratch);
    const long long from = row_ptr[row], to = row_ptr[row + 1];
    const unsigned leader = (unsigned)((row + from) / SPG_TILE);
    const unsigned pieces = (unsigned)((row + to - 1) / SPG_TILE) - leader + 1;
    // Slot 1 of the block where the row begins (slot 0 may be the end of another one), slot 0 of the others.
    if (threadIdx.x == 0) {
        partial[2 * blockIdx.x + is_first] = sum;
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

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_THREADS) / SPG_BLOCK)
csr_adaptive(offset_t nnz, const index_t* __restrict__ block_row, const offset_t* __restrict__ block_entry,
             const index_t* __restrict__ reaches_in, value_t* partial, unsigned* arrived,
             const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
             const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y) {
    SPG_SHARED(value_t, products, PLACE(SPG_TILE + SPG_LONG + 8));
    SPG_SHARED(index_t, long_row, (SPG_TILE + SPG_LONG) / SPG_PATIENCE + 1);
    SPG_SHARED(unsigned, counter, 1);
    const long long block = blockIdx.x;
    const int thread = threadIdx.x;
    const index_t first = block_row[block];
    index_t last = block_row[block + 1];
    const offset_t entry = block_entry[block];
    offset_t stop = block_entry[block + 1];
    const bool tail = reaches_in[block], head = reaches_in[block + 1] && last > first;
    if (head) stop = row_ptr[--last];  // the last row is long: only a piece of it is done here

    if (thread == 0) counter[0] = 0;
    const int rows = last - first;
    if (rows > 0) {
        int width = 1;  // threads per row
        while (width < 32 && rows * width * 2 <= SPG_BLOCK) width *= 2;
        const int groups = SPG_BLOCK / width, lane = thread % width;
        // Start at a multiple of 4. Up to three entries before and after belong to other blocks' rows: their
        // products are computed and never looked at.
        const long long base = entry & ~(offset_t)3;
        const int count = (int)(stop - base);
        int row = thread / width;
        // Asked for now, looked at when the products are there: a subtraction here would wait for them.
        offset_t row_from = 0, row_to = 0;
        if (row < rows) {
            row_from = row_ptr[first + row];
            row_to = row_ptr[first + row + 1];
        }
        // Quads end at the last multiple of 4 within the arrays; the matrix's last entries are read singly.
        const long long inside = (nnz - base) & ~3LL;
        const int quads = inside < count ? (int)inside : count;
        for (int i = 4 * thread; i < quads; i += 4 * DEPTH * SPG_BLOCK) {
            index_quad c[DEPTH];
            value_quad v[DEPTH];
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                const int at = i + 4 * k * SPG_BLOCK;
                if (at < quads) c[k] = stream_quad(col, base + at);
                if (at < quads) v[k] = stream_quad(val, base + at);
            }
#pragma unroll
            for (int k = 0; k < DEPTH; ++k)
                if (i + 4 * k * SPG_BLOCK < quads) {
#pragma unroll
                    for (int u = 0; u < 4; ++u) v[k].at[u] *= spg_gather(x + c[k].at[u]);
                }
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                const int at = i + 4 * k * SPG_BLOCK;
                if (at < quads) {
#pragma unroll
                    for (int u = 0; u < 4; ++u) products[PLACE(at + u)] = v[k].at[u];
                }
            }
        }
        for (int i = quads + thread; i < count; i += SPG_BLOCK)
            products[PLACE(i)] = val[base + i] * x[col[base + i]];
        __syncthreads();

        int from = row < rows ? (int)(row_from - base) : 0, to = row < rows ? (int)(row_to - base) : 0;
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
            if (lane == 0 && mine && patient) y[first + row] = sum;
            row += groups;
            from = to = 0;
            if (row < rows) {
                from = (int)(row_ptr[first + row] - base);
                to = (int)(row_ptr[first + row + 1] - base);
            }
        }
        __syncthreads();
        for (unsigned k = thread / 32; k < counter[0]; k += SPG_BLOCK / 32) {
            const index_t target = first + long_row[k];
            const int end = (int)(row_ptr[target + 1] - base);
            value_t sum = 0;
            for (int i = (int)(row_ptr[target] - base) + thread % 32; i < end; i += 32) sum += products[PLACE(i)];
            for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(FULL_WARP, sum, distance);
            if (thread % 32 == 0) y[target] = sum;
        }
    }
    if (!tail && !head) return;

    __syncthreads();  // the products have been read: their place serves as scratch
    const long long cost = block * SPG_TILE;
    if (tail) {
        const long long end = cost + SPG_TILE - (first - 1);
        row_piece(first - 1, cost - (first - 1), end < entry ? end : entry, false, nnz, partial, arrived, row_ptr,
                  col, val, x, y, products, counter);
    }
    if (head)
        row_piece(last, stop, cost + SPG_TILE - last, true, nnz, partial, arrived, row_ptr, col, val, x, y, products,
                  counter);
}
