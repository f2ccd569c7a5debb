// csr-merge: y = A x, A in CSR, every thread does the same number of steps on the merge path.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          tile_row int32 [tiles + 1]: rows ended before each tile, made once per matrix;
//          carry value_t [tiles]: workspace.
// Mapping  Row ends and entries are merged in one list: the entries of row 0, the end of row 0, the entries of
//          row 1, ... A tile is SPG_BLOCK * SPG_ITEMS consecutive elements of it, a thread takes SPG_ITEMS of
//          them: an entry is added to the running sum, a row end writes it out. So neither a row of a million
//          entries nor a million empty rows can unbalance anything.
//          What a thread has at its end belongs to a row that a later thread ends: a segmented scan in the
//          warp gathers it, an atomic in shared memory hands it on. What a tile has at its end goes to
//          carry; the second kernel adds it to y.
// Wins     on the wildest row lengths; its time depends on rows + nnz alone.
// Loses    where rows are tame: searching, two passes through shared memory and a second launch.
// Idea     Merrill and Garland, "Merge-based parallel sparse matrix-vector multiplication", SC 2016.
#include "../common/spg.cuh"

// SPG_ITEMS is odd: threads that walk shared memory in step stay in different banks.
#if !defined(SPG_BLOCK) || !defined(SPG_ITEMS)
#error "the host function defines SPG_BLOCK and SPG_ITEMS"
#endif
#define TILE (SPG_BLOCK * SPG_ITEMS)
#define BEYOND (TILE + 1)  // the end of a row that goes on in the next tile
// Shared   an element of the list is an entry, which has a product, or a row end, which has a sum: one array of
//          TILE + 1 values holds both, the products first. Ends count from the tile's first entry, in 16 bits. That
//          is 6 bytes an element in float32 and 10 in float64; what a block leaves is for L1, which gathers need.

static_assert(BEYOND <= 0xffff, "ends of rows within a tile are kept in 16 bits");

// The table: entry t is the number of rows that end among the first t * TILE elements of the merged list, where
// the end of row i is element i + row_ptr[i + 1].
SPG_KERNEL csr_merge_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row)
{
    const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (tile > tiles) return;
    const long long border = tile * TILE;
    index_t low = 0, high = rows;
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (middle + (long long)row_ptr[middle + 1] < border)
            low = middle + 1;
        else
            high = middle;
    }
    tile_row[tile] = low;
}

SPG_KERNEL csr_merge(index_t rows, offset_t nnz, const index_t* __restrict__ tile_row, value_t* carry,
                     const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                     const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    SPG_SHARED(value_t, products, TILE + 1);
    SPG_SHARED(unsigned short, ends, TILE + 1);
    const int thread = threadIdx.x, lane = thread % 32;
    const long long total = (long long)rows + nnz;
    const long long from = (long long)blockIdx.x * TILE;
    const long long to = from + TILE < total ? from + TILE : total;
    const index_t first = tile_row[blockIdx.x];
    const int row_count = tile_row[blockIdx.x + 1] - first;  // rows that end in this tile
    const long long base = from - first;                     // its first entry
    const int count = (int)(to - from) - row_count;
    // Behind the products: a sum for each row that ends here and one for the row that goes on. A tile has
    // row_count + count <= TILE elements.
    value_t* const sums = products + count;

    for (int r = thread; r <= row_count; r += SPG_BLOCK) {
        // Never below 0: a row that ends in this tile ends at or after its first entry.
        ends[r] = (unsigned short)(r < row_count ? (int)(row_ptr[first + r + 1] - base) : BEYOND);
        sums[r] = 0;
    }
#pragma unroll
    for (int k = 0; k < SPG_ITEMS; ++k) {
        const int i = thread + k * SPG_BLOCK;
        if (i < count) products[i] = val[base + i] * x[col[base + i]];
    }
    __syncthreads();

    // Where the thread starts: the row ends among the first thread * SPG_ITEMS elements, found by bisection
    // (end r is element r + ends[r]).
    const int length = row_count + count;
    const int start = thread * SPG_ITEMS < length ? thread * SPG_ITEMS : length;
    const int stop = start + SPG_ITEMS < length ? start + SPG_ITEMS : length;
    int row = 0;
    for (int over = start < row_count ? start : row_count; row < over;) {
        const int middle = row + (over - row) / 2;
        if (middle + ends[middle] < start)
            row = middle + 1;
        else
            over = middle;
    }
    int entry = start - row;
    value_t running = 0;
    bool begun_before = true;  // the row may have entries in threads below
#pragma unroll
    for (int k = 0; k < SPG_ITEMS; ++k) {
        if (start + k < stop) {
            if (entry < ends[row]) {
                running += products[entry++];
            } else {
                if (begun_before)
                    atomicAdd(sums + row, running);
                else
                    sums[row] = running;
                begun_before = false;
                running = 0;
                ++row;
            }
        }
    }
    // What is left belongs to `row`. Neighbouring threads often are in the same row: add theirs up first.
    for (int distance = 1; distance < 32; distance *= 2) {
        const int row_below = __shfl_up_sync(SPG_FULL_WARP, row, distance);
        const value_t running_below = __shfl_up_sync(SPG_FULL_WARP, running, distance);
        if (lane >= distance && row_below == row) running += running_below;
    }
    const int row_above = __shfl_down_sync(SPG_FULL_WARP, row, 1);
    if (lane == 31 || row_above != row) atomicAdd(sums + row, running);
    __syncthreads();

    for (int r = thread; r < row_count; r += SPG_BLOCK) y[first + r] = sums[r];
    if (thread == 0) carry[blockIdx.x] = sums[row_count];
}

// Adds what each tile carried out to the row that goes on after it.
SPG_KERNEL csr_merge_carry(index_t rows, int tiles, const index_t* __restrict__ tile_row,
                           const value_t* __restrict__ carry, value_t* y)
{
    const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (tile >= tiles) return;
    const index_t row = tile_row[tile + 1];
    const value_t rest = carry[tile];
    if (row < rows && rest != 0) atomicAdd(y + row, rest);  // NaN is not 0 and is added
}
