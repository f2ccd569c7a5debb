// csr-adaptive: y = A x, A in CSR, blocks of about SPG_TILE entries, whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
//          block_row int32 [blocks + 1], chunk int32 [blocks]: the row-block table, made once per matrix.
//          partial value_t [blocks], arrived unsigned [blocks], all 0: workspace, left as it was found.
// Mapping  chunk[b] < 0: block b does rows block_row[b] to block_row[b + 1], each of at most SPG_LONG entries,
//              all of at most SPG_TILE + SPG_LONG. It reads their entries in runs of 16 bytes, puts the
//              products into shared memory, and sums each row from there with as many threads as there are
//              for it.
//          chunk[b] >= 0: block b does the chunk[b]-th piece (SPG_TILE entries) of the long row block_row[b].
//              The block that finishes last adds the pieces up, always in the same order: no atomics on
//              values, no zeroed y, one launch, the same bits every time.
// Wins     nearly everywhere: reads are coalesced whatever the row lengths, and no block has much more to do
//          than another.
// Loses    a little on even rows, where ELL and its kin need neither the table nor shared memory.
// Idea     Greathouse and Daga, "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//          format", SC 2014 (CSR-Adaptive); the last block's sum as in NVIDIA's threadFenceReduction sample.
#include "../common/spg.cuh"
#include "quad.cuh"

#ifndef SPG_TILE
#define SPG_TILE 2048
#endif
#define SPG_LONG (SPG_TILE / 2)
#define FULL_WARP 0xffffffffu

// Place of product i in shared memory. One gap every 32 words keeps rows of 8, 16, 32, ... entries, which
// neighbouring threads walk in step, out of each other's banks.
#define PLACE(i) ((i) + ((i) >> 5))

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

SPG_KERNEL csr_adaptive(offset_t nnz, const index_t* __restrict__ block_row, const index_t* __restrict__ chunk,
                        value_t* partial, unsigned* arrived, const offset_t* __restrict__ row_ptr,
                        const index_t* __restrict__ col, const value_t* __restrict__ val,
                        const value_t* __restrict__ x, value_t* __restrict__ y) {
    SPG_SHARED(value_t, products, PLACE(SPG_TILE + SPG_LONG + 8));
    SPG_SHARED(unsigned, ticket, 1);
    const unsigned block = blockIdx.x;
    const int thread = threadIdx.x, threads = blockDim.x;
    const int piece = chunk[block];
    const index_t first = block_row[block];

    if (piece < 0) {
        const index_t last = block_row[block + 1];
        // Start at a multiple of 4. Up to three entries before and after belong to other blocks' rows: their
        // products are computed and never looked at.
        const long long base = row_ptr[first] & ~(offset_t)3;
        const int count = (int)(row_ptr[last] - base);
        // Quads end at the last multiple of 4 within the arrays; the matrix's last entries are read singly.
        const long long inside = (nnz - base) & ~3LL;
        const int quads = inside < count ? (int)inside : count;
#pragma unroll 2
        for (int i = 4 * thread; i < quads; i += 4 * threads) {
            const index_quad c = read_quad(col, base + i);
            const value_quad v = read_quad(val, base + i);
#pragma unroll
            for (int u = 0; u < 4; ++u) products[PLACE(i + u)] = v.at[u] * x[c.at[u]];
        }
        for (int i = quads + thread; i < count; i += threads)
            products[PLACE(i)] = val[base + i] * x[col[base + i]];
        __syncthreads();
        const int rows = last - first;
        int width = 1;  // threads per row
        while (width < 32 && rows * width * 2 <= threads) width *= 2;
        const int groups = threads / width, group = thread / width, lane = thread % width;
        for (int start = 0; start < rows; start += groups) {  // every thread stays until all rows are done
            const int row = start + group;
            value_t sum = 0;
            if (row < rows) {
                const int end = (int)(row_ptr[first + row + 1] - base);
                for (int i = (int)(row_ptr[first + row] - base) + lane; i < end; i += width)
                    sum += products[PLACE(i)];
            }
            for (int distance = width / 2; distance > 0; distance /= 2)
                sum += __shfl_down_sync(FULL_WARP, sum, distance, width);
            if (lane == 0 && row < rows) y[first + row] = sum;
        }
        return;
    }

    const long long begin = row_ptr[first], end = row_ptr[first + 1];
    const long long aligned = begin & ~3LL;
    const long long low = aligned + (long long)piece * SPG_TILE;
    const long long high = low + SPG_TILE < end ? low + SPG_TILE : end;
    value_t sum = 0;
#pragma unroll 2
    for (long long e = low + 4 * thread; e < high; e += 4 * threads) {
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
    sum = block_sum(sum, products);
    const unsigned pieces = (unsigned)((end - aligned + SPG_TILE - 1) / SPG_TILE);
    if (pieces == 1) {
        if (thread == 0) y[first] = sum;
        return;
    }
    const unsigned leader = block - piece;  // the row's first block, whose counter is the row's
    if (thread == 0) {
        partial[block] = sum;
        __threadfence();  // the piece is in memory before its arrival is counted
        ticket[0] = atomicAdd(arrived + leader, 1u);
    }
    __syncthreads();
    if (ticket[0] != pieces - 1) return;
    __threadfence();
    const volatile value_t* all = partial + leader;  // volatile: not from this SM's L1
    sum = 0;
    for (unsigned k = thread; k < pieces; k += threads) sum += all[k];
    sum = block_sum(sum, products);
    if (thread == 0) {
        y[first] = sum;
        arrived[leader] = 0;  // ready for the next launch
    }
}
