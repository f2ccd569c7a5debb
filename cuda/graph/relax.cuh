// relax.cuh: relaxing the edges of a frontier, and the near and far piles of a search for shortest paths.
//
// Layout   dist     int32 [n]: the length found so far, as an ordered integer (path_lengths.cuh); else `unreached`
//          queued   int32 [n]: the last phase that the vertex was queued for; 0 before
//          in_far   unsigned [ceil(n / 32)]: a bit per vertex that is in the far pile
//          queue    index_t [2][side], start offset_t [2][side], side = n + SPG_SPARE: the near piles (frontier.cuh).
//                   Phase k reads queue k % 2 and tally k % 3, and writes those of k + 1.
//          far      index_t [2][n]: after j splits far pile j % 2 is in use
//          words    word64_t [6]: the tallies of three phases, then how many the far piles of three splits hold
//          least    int32 [3]: the least length in a far pile when it was split off
#pragma once

#include "levels.cuh"
#include "path_lengths.cuh"

#define SPG_SPARE 8448       // places of a queue beyond one per vertex: a block alone may queue some vertices twice
#define SPG_STEPS 3          // edges that a lane relaxes together
#define SPG_SPLIT 4          // entries of the far pile that a thread takes together

// Counters take turns by three: one is read, one is written, one is cleared. So one barrier a phase is enough.
//
// Lengths of one search only fall, and every length is that of some walk from the source. What a phase reads may be
// older than what others write meanwhile, so loads are relaxed; an old length is at worst too long, and the thread
// that lowered it has queued the vertex again. So the end is the same in any order: no edge shortens a length any more.
// As adding a weight, rounded or not, never reverses the order of two lengths, the end is the same to the last bit.
//
// With a cutoff, lengths of `limit` and more are dropped as soon as they are added up: what is beyond stays
// unreached, and nothing is relaxed from there.
//
// A vertex is queued once a phase: `queued` tells. It is in the far pile once: its bit tells. When its length falls
// below the threshold it is queued as near, and what then is in the far pile is dropped when the pile is split.

__device__ __forceinline__ int twice(int delta) { return delta > 0x3fffffff ? 0x7fffffff : 2 * delta; }
__device__ __forceinline__ float twice(float delta) { return delta + delta; }
__device__ __forceinline__ int bits_of(int value) { return value; }
__device__ __forceinline__ int bits_of(float value) { return __float_as_int(value); }
__device__ __forceinline__ int value_of(int bits, int) { return bits; }
__device__ __forceinline__ float value_of(int bits, float) { return __int_as_float(bits); }

// The next threshold: `delta` beyond `least`, and beyond it in any case (a float may swallow a small delta).
__device__ __forceinline__ int threshold_beyond(int least, value_t delta)
{
    return max(length_plus(least, delta), least == 0x7fffffff ? least : least + 1);
}

struct weighted_graph {
    index_t n;
    const offset_t* __restrict__ row_ptr;
    const index_t* __restrict__ col;
    const value_t* __restrict__ weight;  // null where all weigh `uniform`
    value_t uniform;
    int limit;  // lengths from here on are not kept: one beyond the cutoff, as an ordered integer
    __device__ __forceinline__ value_t weight_of(offset_t e) const { return weight ? weight[e] : uniform; }
};

struct search_piles {
    int* dist;
    int* queued;
    unsigned* in_far;
    index_t* queue;
    offset_t* start;
    index_t* far;
    word64_t* words;
    int* least;
    long long n;
    __device__ __forceinline__ long long side(int k) const { return (k & 1) * (n + SPG_SPARE); }
    __device__ __forceinline__ word64_t* tally(int k) const { return words + k % 3; }
    __device__ __forceinline__ index_t* far_pile(int j) const { return far + (j & 1) * n; }
    __device__ __forceinline__ word64_t* far_count(int j) const { return words + 3 + j % 3; }
    __device__ __forceinline__ int* far_least(int j) const { return least + j % 3; }
};

// Nothing reached but the source, which is the frontier of phase 0. By all threads of the grid.
__device__ __forceinline__ void begin_search(const weighted_graph& g, const search_piles& s, index_t source)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = thread; v < g.n; v += threads) {
        s.dist[v] = v == source ? 0 : unreached_as(value_t());
        s.queued[v] = 0;
        if (v < words_of(g.n)) s.in_far[v] = 0;
    }
    if (thread == 0) {
        const offset_t degree = g.row_ptr[source + 1] - g.row_ptr[source];
        s.queue[0] = source;
        s.start[0] = 0;
        for (int i = 0; i < 6; ++i) s.words[i] = 0;
        for (int i = 0; i < 3; ++i) s.least[i] = 0x7fffffff;
        if (degree > 0) s.words[0] = tally_of(1, degree);
    }
}

// For one thread, in phase k: the tally that is written next but one.
__device__ __forceinline__ void clear_tally(const search_piles& s, int k) { *s.tally(k + 2) = 0; }
// For one thread, in split j: the far words that are written next but one.
__device__ __forceinline__ void clear_far(const search_piles& s, int j)
{
    *s.far_count(j + 2) = 0;
    *s.far_least(j + 2) = 0x7fffffff;
}

// Whether this thread puts `w` into the far pile: it is not there yet, and atomicOr lets one thread see that.
__device__ __forceinline__ bool enters_far(index_t w, unsigned* in_far)
{
    const unsigned bit = 1u << w % 32;
    return !(load_grid(in_far + w / 32) & bit) && !(atomicOr(in_far + w / 32, bit) & bit);
}

// Phase k of a grid: every edge of the near frontier falls to some warp, the same number to each. A target whose length
// falls is queued for phase k + 1 if it is below `threshold`, else it goes to far pile j.
__device__ __forceinline__ void relax_phase(const weighted_graph& g, const search_piles& s, int k, int j, int threshold)
{
    SPG_SHARED_2D(index_t, gathered, 64, 64);
    const long long out = s.side(k + 1);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    warp_gather near{gathered[2 * warp], 0}, far{gathered[2 * warp + 1], 0};
    const auto flush_near = [&](int count) {
        enqueue_gathered(near.slots, count, g.row_ptr, s.queue + out, s.start + out, s.tally(k + 1));
    };
    const auto flush_far = [&](int count) {
        word64_t position = 0;
        if (lane == 0) position = atomicAdd(s.far_count(j), (word64_t)count);
        position = __shfl_sync(SPG_FULL_WARP, position, 0);
        if (lane < count) s.far_pile(j)[position + lane] = far.slots[lane];
    };
    edge_walk walk(s.queue + s.side(k), s.start + s.side(k), *s.tally(k), g.row_ptr, warp_of_grid(), warps_of_grid());
    // Several edges a lane together, so that their loads and atomics are each waited for once. Lanes without an edge
    // load what the first edge has.
    while (walk.more()) {
        bool lowers[SPG_STEPS];
        index_t v[SPG_STEPS], w[SPG_STEPS];
        offset_t e[SPG_STEPS];
        int length[SPG_STEPS], known[SPG_STEPS];
#pragma unroll
        for (int u = 0; u < SPG_STEPS; ++u) {
            lowers[u] = false;
            v[u] = 0;
            e[u] = 0;
            if (walk.more()) walk.step(lowers[u], v[u], e[u]);
        }
#pragma unroll
        for (int u = 0; u < SPG_STEPS; ++u) {
            w[u] = g.col[e[u]];
            length[u] = length_plus(load_grid(s.dist + v[u]), g.weight_of(e[u]));
        }
#pragma unroll
        for (int u = 0; u < SPG_STEPS; ++u) known[u] = load_grid(s.dist + w[u]);
#pragma unroll
        for (int u = 0; u < SPG_STEPS; ++u) {
            lowers[u] = lowers[u] && length[u] < min(known[u], g.limit);
            if (lowers[u]) known[u] = atomicMin(s.dist + w[u], length[u]);
        }
#pragma unroll
        for (int u = 0; u < SPG_STEPS; ++u) {
            bool is_near = false, is_far = false;
            if (lowers[u] && length[u] < known[u]) {
                if (length[u] < threshold)
                    is_near = atomicExch(s.queued + w[u], k + 1) != k + 1;
                else
                    is_far = enters_far(w[u], s.in_far);
            }
            near.add(is_near, w[u], flush_near);
            far.add(is_far, w[u], flush_far);
        }
    }
    near.rest(flush_near);
    far.rest(flush_far);
}

// For every thread of a block: what comes before its `mine` in *total, by one atomic of the block. Sums of tallies are
// sums of both of their parts.
__device__ __forceinline__ word64_t reserve_block(word64_t mine, word64_t* total)
{
    SPG_SHARED(word64_t, sums, 32);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const word64_t sum = warp_inclusive_sum(mine);
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        const word64_t own = lane < warps ? sums[lane] : 0;
        const word64_t up_to = warp_inclusive_sum(own);
        word64_t base = 0;
        if (lane == 31 && up_to) base = atomicAdd(total, up_to);
        base = __shfl_sync(SPG_FULL_WARP, base, 31);
        if (lane < warps) sums[lane] = base + up_to - own;
    }
    __syncthreads();
    const word64_t before = sums[warp] + sum - mine;
    __syncthreads();  // the sums are free again
    return before;
}

// Split j, which is phase k: of far pile j, what has come below `lower` since it was put there is done and dropped,
// what is below `upper` is queued for phase k + 1, and the rest is far pile j + 1. By all threads of `block` of
// `blocks`. Nothing is relaxed meanwhile, so lengths stand still.
__device__ __forceinline__ void split_far(const weighted_graph& g, const search_piles& s, int k, int j, int lower,
                                          int upper, int block, int blocks)
{
    SPG_SHARED_VAR(int, block_least);
    const long long count = (long long)load_grid(s.far_count(j)), chunk = (long long)blockDim.x * SPG_SPLIT;
    const long long out = s.side(k + 1);
    const index_t* pile = s.far_pile(j);
    index_t* rest = s.far_pile(j + 1);
    int least = 0x7fffffff;
    if (threadIdx.x == 0) block_least = 0x7fffffff;
    for (long long base = block * chunk; base < count; base += blocks * chunk) {
        index_t v[SPG_SPLIT];
        int length[SPG_SPLIT];
        offset_t degree[SPG_SPLIT];
        word64_t kept = 0, near = 0;
#pragma unroll
        for (int u = 0; u < SPG_SPLIT; ++u) {
            const long long i = base + u * (long long)blockDim.x + threadIdx.x;
            v[u] = i < count ? pile[i] : -1;
        }
#pragma unroll
        for (int u = 0; u < SPG_SPLIT; ++u) length[u] = v[u] >= 0 ? load_grid(s.dist + v[u]) : -1;
#pragma unroll
        for (int u = 0; u < SPG_SPLIT; ++u) {
            degree[u] = 0;
            if (v[u] < 0) continue;
            if (length[u] >= upper) {
                ++kept;
                least = min(least, length[u]);
                continue;
            }
            atomicAnd(s.in_far + v[u] / 32, ~(1u << v[u] % 32));
            if (length[u] < lower) continue;
            degree[u] = g.row_ptr[v[u] + 1] - g.row_ptr[v[u]];
            if (degree[u] > 0) near += tally_of(1, degree[u]);
        }
        word64_t place = reserve_block(kept, s.far_count(j + 1)), tally = reserve_block(near, s.tally(k + 1));
#pragma unroll
        for (int u = 0; u < SPG_SPLIT; ++u) {
            if (v[u] >= 0 && length[u] >= upper) rest[place++] = v[u];
            if (degree[u] == 0) continue;
            s.queue[out + tally_count(tally)] = v[u];
            s.start[out + tally_count(tally)] = (offset_t)tally_edges(tally);
            tally += tally_of(1, degree[u]);
        }
    }
    for (int distance = 16; distance > 0; distance /= 2)
        least = min(least, __shfl_xor_sync(SPG_FULL_WARP, least, distance));
    __syncthreads();
    if ((threadIdx.x & 31) == 0 && least != 0x7fffffff) atomicMin(&block_least, least);
    __syncthreads();
    if (threadIdx.x == 0 && block_least != 0x7fffffff) atomicMin(s.far_least(j + 1), block_least);
}
