// scan.cuh: prefix sums over a warp, a block, and (in one reading of the data) over a whole grid.
//
// Sums over the grid are done by decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with
// decoupled look-back", 2016): each tile publishes the sum of its own items, looks back over the tiles before it until
// it meets one that already knows the sum of everything up to itself, and publishes that for its own successors.
// Flag and number stand in one word, so that one relaxed store publishes both and no fence is needed.
//
// A tile waits for tiles of lower number only. Blocks take their tile from a counter, so that a tile is started only
// when all before it are: whatever the order in which a GPU starts blocks, the wait ends.
//
// Nothing has to be cleared between launches of the same grid: the counter goes on counting, so that it tells the launch
// (the epoch) as well as the tile, and a word counts as written only if it bears the epoch of this launch.
#pragma once

#include "spg.cuh"

typedef unsigned long long scan_word_t;  // epoch << 56 | flag << 54 | sum

#define SPG_SCAN_SUM (1ull << 54)     // of this tile alone
#define SPG_SCAN_PREFIX (2ull << 54)  // of this tile and all before it
#define SPG_SCAN_VALUE (SPG_SCAN_SUM - 1)

// Words that other blocks write at the same time: relaxed accesses, scope of the GPU.
#ifdef SPG_HOST
template <class T> static inline T scan_load(const T* p) { return __ldcv(p); }  // yields, so that others get on
template <class T> static inline void scan_store(T* p, T value) { *(volatile T*)p = value; }
#else
__device__ __forceinline__ unsigned scan_load(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ scan_word_t scan_load(const scan_word_t* p)
{
    scan_word_t v;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ void scan_store(unsigned* p, unsigned value)
{
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" : : "l"(p), "r"(value));
}
__device__ __forceinline__ void scan_store(scan_word_t* p, scan_word_t value)
{
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(p), "l"(value));
}
#endif

// Sum of the values of this lane and those below it. All 32 lanes come.
template <class T>
__device__ __forceinline__ T warp_inclusive_sum(T value)
{
    const unsigned lane = threadIdx.x & 31;
    for (int distance = 1; distance < 32; distance *= 2) {
        const T below = __shfl_up_sync(0xffffffffu, value, distance);
        if (lane >= (unsigned)distance) value += below;
    }
    return value;
}

// Sum of the values of all threads before this one; `total` is that of the block. All threads of a block of whole
// warps come.
template <class T>
__device__ __forceinline__ T block_exclusive_sum(T value, T& total)
{
    SPG_SHARED(T, sums, 32);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const T inclusive = warp_inclusive_sum(value);
    __syncthreads();  // what an earlier call left has been read
    if (lane == 31) sums[warp] = inclusive;
    __syncthreads();
    const T of_warps = warp_inclusive_sum(lane < warps ? sums[lane] : (T)0);
    total = __shfl_sync(0xffffffffu, of_warps, 31);
    const T before = __shfl_sync(0xffffffffu, of_warps, warp == 0 ? 0 : warp - 1);
    return (warp == 0 ? (T)0 : before) + inclusive - value;
}

// The next tile that nobody has taken, for the whole block.
__device__ __forceinline__ unsigned next_tile(unsigned* counter)
{
    SPG_SHARED_VAR(unsigned, tile);
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(counter, 1u);
    __syncthreads();
    return tile;
}

// State of a scan over the whole grid, a tile per block: scan_word_t [1 + tiles], zero when it is made and never
// cleared; the first word counts the tiles that were taken, in all launches.
struct scan_tile_t {
    scan_word_t *status, epoch;
    unsigned tile;
};

__device__ __forceinline__ scan_tile_t take_tile(scan_word_t* state)
{
    SPG_SHARED_VAR(scan_word_t, taken);
    __syncthreads();
    if (threadIdx.x == 0) taken = atomicAdd(state, 1ull);
    __syncthreads();
    // The words bear the epoch of the launch before, or at first 0.
    return {state + 1, ((taken / gridDim.x + 1) & 255) << 56, (unsigned)(taken % gridDim.x)};
}

// Sum of all tiles before this one, whose own is `sum`. All threads of a block of whole warps come, and each looks at a
// tile: in a grid of no more tiles than a block has threads, one look is enough.
__device__ __forceinline__ long long look_back(const scan_tile_t& mine, long long sum)
{
    SPG_SHARED(long long, parts, 32);
    SPG_SHARED(unsigned, knows, 32);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const long long tile = mine.tile;
    if (threadIdx.x == 0)
        scan_store(mine.status + tile, mine.epoch | (tile == 0 ? SPG_SCAN_PREFIX : SPG_SCAN_SUM) | (scan_word_t)sum);
    long long before = 0;
    bool done = tile == 0;
    for (long long last = tile - 1; !done; last -= blockDim.x) {
        const long long at = last - threadIdx.x;
        scan_word_t word = mine.epoch | SPG_SCAN_PREFIX;  // nothing comes before the first tile
        if (at >= 0)
            do word = scan_load(mine.status + at);
            while ((word ^ mine.epoch) >> 56 != 0);
        const unsigned known = __ballot_sync(0xffffffffu, (word & SPG_SCAN_PREFIX) != 0);
        const int stop = known ? __ffs((int)known) - 1 : 31;  // the nearest tile that knows its prefix
        long long part = lane <= stop ? (long long)(word & SPG_SCAN_VALUE) : 0;
        for (int distance = 16; distance > 0; distance /= 2) part += __shfl_xor_sync(0xffffffffu, part, distance);
        __syncthreads();  // what an earlier round left has been read
        if (lane == 0) {
            parts[warp] = part;
            knows[warp] = known;
        }
        __syncthreads();
        for (int w = 0; w < warps && !done; ++w) {
            before += parts[w];
            done = knows[w] != 0;
        }
    }
    if (threadIdx.x == 0 && tile > 0)
        scan_store(mine.status + tile, mine.epoch | SPG_SCAN_PREFIX | (scan_word_t)(before + sum));
    return before;
}
