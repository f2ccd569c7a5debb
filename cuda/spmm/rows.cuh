// rows.cuh: rows of A handed to groups of lanes, for SpMM kernels that take a row at a time (row-major X and Y).
//
// SPG_LANES lanes go over the columns (dense.cuh); SPG_SHARE such groups, up to a warp, share a row of A. They read
// SPG_CHUNK of its entries together, one or more a lane, and pass them round by shuffles: group g takes entries g,
// g + SPG_SHARE, ..., and has SPG_SLOTS rows of X in flight at a time. The kernel reads the next chunk, of this row or
// the next one, before it multiplies with the present one, so that both are in flight together.
#pragma once
#include "dense.cuh"

#if !defined(SPG_SHARE) || !defined(SPG_SLOTS) || !defined(SPG_PER_SM)
#error "the host function defines SPG_SHARE, SPG_SLOTS and SPG_PER_SM"
#endif
#define SPG_ROW_LANES (SPG_LANES * SPG_SHARE)
#define SPG_ROWS_AT_ONCE (SPG_BLOCK / SPG_ROW_LANES)                                // of a block
#define SPG_HELD ((SPG_SLOTS + SPG_LANES - 1) / SPG_LANES)                          // entries of a lane
#define SPG_BATCHES (SPG_HELD > 1 ? 1 : SPG_LANES / SPG_SLOTS)                      // of SPG_SLOTS rows of X
#define SPG_CHUNK (SPG_SHARE * SPG_SLOTS * SPG_BATCHES)
#define SPG_NONE (-1)  // the column of an entry that there is not

#ifdef SPG_HOST
static __forceinline__ index_t gather_column(const index_t* p, bool wanted)
{
    return wanted ? spg_gather(p) : SPG_NONE;
}

static __forceinline__ void prefetch_sector(const void*) {}
#else
// A column that other warps read from the same sector, too, or SPG_NONE. See SPG_IF in stream.cuh.
__device__ __forceinline__ index_t gather_column(const index_t* p, bool wanted)
{
    index_t r = SPG_NONE;
    asm volatile(SPG_IF(2) "ld.global.nc.s32 %0, [%1]; }" : "+r"(r) : "l"(p), "r"((int)wanted));
    return r;
}

// Asks for the sector at `p` into the L2, and waits for nothing.
__device__ __forceinline__ void prefetch_sector(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
#endif

// The rows of one group: `steps` of them, `stride` apart. A block has SPG_ROWS_AT_ONCE neighbours at a time. With a
// stride of as many its rows are all neighbours. With the distance between two lines of a grid they are a tile of it,
// so that a row of X above and below comes from L1, too.
struct row_walk {
    unsigned row, last;      // valid: row < last
    unsigned first, stride;  // of the whole block
    unsigned steps;

    __device__ __forceinline__ row_walk(index_t rows, index_t apart, index_t count)
    {
        stride = apart, steps = count;
        const unsigned across = (stride + SPG_ROWS_AT_ONCE - 1) / SPG_ROWS_AT_ONCE;
        const unsigned place = blockIdx.x % across * SPG_ROWS_AT_ONCE + threadIdx.x / SPG_ROW_LANES;
        first = blockIdx.x / across * stride * steps;
        row = first + place;
        last = first + stride * steps < (unsigned)rows ? first + stride * steps : (unsigned)rows;
        steps = (last - first + stride - 1) / stride;
        if (place >= stride) last = 0;
    }
};

struct entries_t {
    index_t c[SPG_HELD];
    value_t a[SPG_HELD];
};

// The entry of a chunk that this lane has in register h.
__device__ __forceinline__ unsigned entry_of_lane(int h) { return threadIdx.x % SPG_ROW_LANES + h * SPG_ROW_LANES; }

// Adds a chunk of entries, of which the warp's longest row has `count`, to the sums. All lanes of a warp call it.
__device__ __forceinline__ void add_chunk(pieces_t& sum, const entries_t& entries, unsigned count,
                                          const value_t* __restrict__ x, index_t first, index_t k)
{
    const unsigned group = threadIdx.x % SPG_ROW_LANES / SPG_LANES;
    for (unsigned j = 0; j < SPG_SLOTS * SPG_BATCHES && j * SPG_SHARE < count; j += SPG_SLOTS) {
        pieces_t piece[SPG_SLOTS];
        value_t factor[SPG_SLOTS];
#pragma unroll
        for (int u = 0; u < SPG_SLOTS; ++u) {
            const int h = SPG_HELD == 1 ? 0 : u / SPG_LANES;
            const unsigned from = (j + u) * SPG_SHARE + group;
            const index_t there = __shfl_sync(SPG_FULL_WARP, entries.c[h], from, SPG_ROW_LANES);
            factor[u] = __shfl_sync(SPG_FULL_WARP, entries.a[h], from, SPG_ROW_LANES);
            piece[u].load(x + (long long)there * k, first, k, there != SPG_NONE);
        }
#pragma unroll
        for (int u = 0; u < SPG_SLOTS; ++u) sum.add(factor[u], piece[u]);  // no entry: 0 x 0
    }
}

// Adds up the sums of the groups that share a row, and writes the row. All lanes of a warp call it.
__device__ __forceinline__ void finish_row(pieces_t& sum, const row_walk& at, value_t* __restrict__ y, index_t first,
                                           index_t k)
{
#pragma unroll
    for (int distance = SPG_LANES; distance < SPG_ROW_LANES; distance *= 2)
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
            for (int v = 0; v < SPG_VEC; ++v) sum.p[i].v[v] += __shfl_xor_sync(SPG_FULL_WARP, sum.p[i].v[v], distance);
    if (threadIdx.x % SPG_ROW_LANES < SPG_LANES && at.row < at.last) sum.store(y + (long long)at.row * k, first, k);
}

// Asks for `bytes` from `from` on, the threads of the grid a sector each, before their addresses are known otherwise.
__device__ __forceinline__ void prefetch_by_grid(const void* from, long long bytes)
{
    const long long threads = (long long)gridDim.x * gridDim.y * SPG_BLOCK;
    const long long thread = ((long long)blockIdx.y * gridDim.x + blockIdx.x) * SPG_BLOCK + threadIdx.x;
    for (long long at = 32 * thread; at < bytes; at += 32 * threads)
        prefetch_sector(static_cast<const char*>(from) + at);
}
