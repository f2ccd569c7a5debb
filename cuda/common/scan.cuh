// scan.cuh: prefix sums over a warp, a block, and (in one reading of the data) over a whole grid.
//
// Sums over the grid are done by decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with
// decoupled look-back", 2016): each tile publishes the sum of its own items, looks back over the tiles before it until
// it meets one that already knows the sum of everything up to itself, and publishes that for its own successors.
// Flag and number are in one word, so that one relaxed store publishes both and no fence is needed.
//
// A tile waits for tiles of lower number only, and those must be running. No manual promises that blocks start in the
// order of their index, so blocks take their tile from a counter: a block's number is the order in which it started.
// That costs a trip to L2 before anything else can begin.
//
// Nothing has to be cleared between launches: the counter also tells which launch this is (the epoch), and a word
// counts as written only if it bears the epoch of this launch.
#pragma once

#include "warp.cuh"

typedef word64_t scan_word_t;  // epoch << 56 | flag << 54 | sum

#define SPG_SCAN_SUM (1ull << 54)     // of this tile alone
#define SPG_SCAN_PREFIX (2ull << 54)  // of this tile and all before it
#define SPG_SCAN_VALUE (SPG_SCAN_SUM - 1)

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
    total = __shfl_sync(SPG_FULL_WARP, of_warps, 31);
    const T before = __shfl_sync(SPG_FULL_WARP, of_warps, warp == 0 ? 0 : warp - 1);
    return (warp == 0 ? (T)0 : before) + inclusive - value;
}

// The order in which this block started, for the whole block: 0, 1, ... `counter` is 0 before a launch and after it.
__device__ __forceinline__ unsigned start_order(unsigned* counter)
{
    SPG_SHARED_VAR(unsigned, ticket);
    if (threadIdx.x == 0) {
        ticket = atomicAdd(counter, 1u);
        if (ticket == gridDim.x - 1) store_grid(counter, 0u);  // every block has its own by now
    }
    __syncthreads();
    return ticket;
}

// The next tile that is not taken, for the whole block.
__device__ __forceinline__ unsigned next_tile(unsigned* counter)
{
    SPG_SHARED_VAR(unsigned, tile);
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(counter, 1u);
    __syncthreads();
    return tile;
}

// A scan over the whole grid, a tile per block. State: scan_word_t [1 + tiles], zero when it is made and never cleared;
// the first word is launches << 32 | blocks started in this launch.
struct scan_turn {
    scan_word_t epoch;  // of this launch: the words bear that of the launch before, or at first 0
    unsigned tile;      // of this block
};

// For the whole block; all threads come.
__device__ __forceinline__ scan_turn take_turn(scan_word_t* state)
{
    SPG_SHARED_VAR(scan_word_t, before);
    if (threadIdx.x == 0) {
        before = atomicAdd(state, 1ull);
        if ((unsigned)before == gridDim.x - 1) atomicAdd(state, (1ull << 32) - gridDim.x);
    }
    __syncthreads();
    return {((before >> 32) + 1 & 255) << 56, (unsigned)before};
}

// Thread 0 tells the others the sum of its block's tile.
__device__ __forceinline__ void publish(scan_word_t* state, scan_turn turn, long long sum)
{
    store_grid(state + 1 + turn.tile,
               turn.epoch | (turn.tile == 0 ? SPG_SCAN_PREFIX : SPG_SCAN_SUM) | (scan_word_t)sum);
}

// What this thread sees of the tile that it looks at first in look_back. Asked for while there is still something to
// compute, a trip to L2 costs nothing; a tile that had not published by then is looked at again.
__device__ __forceinline__ scan_word_t first_look(const scan_word_t* state, scan_turn turn)
{
    const long long at = (long long)turn.tile - 1 - threadIdx.x;
    return at >= 0 ? load_grid(state + 1 + at) : 0;
}

// Sum of all tiles before this one, whose own is `sum` and was published; `seen` is this thread's first_look. All
// threads of a block of whole warps come, and each looks at a tile: in a grid of no more tiles than a block has
// threads, one look is enough.
__device__ __forceinline__ long long look_back(scan_word_t* state, scan_turn turn, long long sum, scan_word_t seen)
{
    SPG_SHARED(long long, parts, 32);
    SPG_SHARED(unsigned, knows, 32);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const long long tile = turn.tile;
    const scan_word_t epoch = turn.epoch;
    scan_word_t* status = state + 1;
    long long before = 0;
    bool done = tile == 0;
    for (long long last = tile - 1; !done; last -= blockDim.x) {
        const long long at = last - threadIdx.x;
        scan_word_t word = epoch | SPG_SCAN_PREFIX;  // nothing comes before the first tile
        if (at >= 0) {
            word = last == tile - 1 ? seen : load_grid(status + at);
            while ((word ^ epoch) >> 56 != 0) {
                spin_pause();
                word = load_grid(status + at);
            }
        }
        const unsigned known = __ballot_sync(SPG_FULL_WARP, (word & SPG_SCAN_PREFIX) != 0);
        const int stop = known ? __ffs((int)known) - 1 : 31;  // the nearest tile that knows its prefix
        long long part = lane <= stop ? (long long)(word & SPG_SCAN_VALUE) : 0;
        part = warp_sum(part);
        __syncthreads();  // what an earlier round left has been read
        if (lane == 0) {
            parts[warp] = part;
            knows[warp] = known;
        }
        __syncthreads();
        const unsigned tell = __ballot_sync(SPG_FULL_WARP, lane < warps && knows[lane] != 0);
        const int nearest = tell ? __ffs((int)tell) - 1 : warps - 1;  // the nearest warp that met such a tile
        before += warp_sum(lane <= nearest ? parts[lane] : 0ll);
        done = tell != 0;
    }
    if (threadIdx.x == 0 && tile > 0) store_grid(status + tile, epoch | SPG_SCAN_PREFIX | (scan_word_t)(before + sum));
    return before;
}
