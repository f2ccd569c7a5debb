// levels.cuh: one level of a breadth-first search, top-down and bottom-up, as the adaptive modes share it.
//
// Layout   level  int32 [n]: -1 until found
//          visited unsigned [2][words]: a bit per vertex, word v / 32, bit v % 32; two copies. Bits of vertices without
//                 any edge, and those beyond n, are set from the start: nothing will ever look for or from them.
//          queue  index_t [2][n], start offset_t [2][n], tally word64_t [3]: frontiers, see frontier.cuh. Level k is
//                 read from queue k % 2 and tally k % 3; level k + 1 is written to the next ones; tally (k + 2) % 3
//                 is cleared meanwhile. So one barrier per level is enough.
//
// Bottom-up needs no frontier: an unvisited vertex with a visited in-neighbour belongs to the next level, because
// everything that levels before the present one reach is visited by now. So `visited` itself is what is probed.
// (Beamer, Asanovic and Patterson, SC 2012, probe the frontier; the set found is the same.)
#pragma once

#include "../common/ordered.cuh"
#include "frontier.cuh"

__device__ __forceinline__ long long warp_of_grid() { return ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32; }
__device__ __forceinline__ long long warps_of_grid() { return (long long)gridDim.x * blockDim.x / 32; }
__device__ __forceinline__ long long words_of(index_t n) { return ((long long)n + 31) / 32; }

// The frontier of level 0. By one thread.
__device__ __forceinline__ void begin_frontier(index_t source, const offset_t* __restrict__ row_ptr, index_t* queue,
                                               offset_t* start, word64_t* tally)
{
    const offset_t degree = row_ptr[source + 1] - row_ptr[source];
    queue[0] = source;
    start[0] = 0;
    tally[0] = degree > 0 ? tally_of(1, degree) : 0;
    tally[1] = 0;
}

// Level -1 for all but the source, bits for vertices without edges (where col_ptr is given, so that in-edges are
// known), the frontier of level 0. A warp per word. A vertex with out-edges only must keep its bit unset: bottom-up
// levels would take it for a visited in-neighbour.
__device__ __forceinline__ void begin_levels(index_t n, index_t source, const offset_t* __restrict__ row_ptr,
                                             const offset_t* __restrict__ col_ptr, int* level, unsigned* visited,
                                             index_t* queue, offset_t* start, word64_t* tally)
{
    const int lane = threadIdx.x & 31;
#pragma unroll 4
    for (long long word = warp_of_grid(); word < words_of(n); word += warps_of_grid()) {
        const long long v = word * 32 + lane;
        bool done = true;
        if (v < n) {
            done = v == source || (col_ptr && col_ptr[v] == col_ptr[v + 1] && row_ptr[v] == row_ptr[v + 1]);
            level[v] = v == source ? 0 : -1;
        }
        const unsigned bits = __ballot_sync(SPG_FULL_WARP, done);
        if (lane == 0) visited[word] = bits;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) begin_frontier(source, row_ptr, queue, start, tally);
}

// Whether this thread is the one that visits `w`.
//
// Many threads may find w together: atomicOr lets exactly one of them see its bit unset. The look before it may be
// old (others set bits meanwhile, hence a relaxed load); a bit that is set stays set, so at worst an atomic is done
// for nothing. BLOCK: only this block works on the graph, so that L1 may answer.
template <bool BLOCK>
__device__ __forceinline__ bool visit(index_t w, unsigned* visited)
{
    unsigned* word = visited + w / 32;
    const unsigned bit = 1u << w % 32;
    const unsigned seen = BLOCK ? load_block(word) : load_grid(word);
    return !(seen & bit) && !(atomicOr(word, bit) & bit);
}

// This warp's own slots for what it finds: one array, whichever level of a kernel gathers.
__device__ __forceinline__ index_t* gather_slots()
{
    SPG_SHARED_2D(index_t, gathered, 32, 64);
    return gathered[threadIdx.x / 32];
}

// Top-down, every edge of the frontier falls to some warp of the grid, the same number to each.
__device__ __forceinline__ void push_level(index_t n, int k, const offset_t* __restrict__ row_ptr,
                                           const index_t* __restrict__ col, int* level, unsigned* visited,
                                           index_t* queue, offset_t* start, word64_t* tally)
{
    const long long in = (long long)(k & 1) * n, out = (long long)(~k & 1) * n;
    warp_gather found{gather_slots(), 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, row_ptr, queue + out, start + out, tally + (k + 1) % 3);
    };
    expand_edges(queue + in, start + in, tally[k % 3], row_ptr, col, warp_of_grid(), warps_of_grid(),
                 [&](bool active, index_t, index_t w) {
                     const bool won = active && visit<false>(w, visited);
                     if (won) level[w] = k + 1;
                     found.add(won, w, flush);
                 });
    found.rest(flush);
}

// Whether to turn to bottom-up: whether the looks it would take are fewer than the frontier's edges times `alpha`.
// `rest` are the edges of vertices not found yet, of which there are `unvisited`.
//
// Each such vertex looks through its in-edges up to the first from a visited vertex. Of the edges that may lead to it,
// `edges` come from the frontier and `rest` from elsewhere, so that takes (edges + rest) / edges looks, if it has as
// many. `turn` is what turning there and back costs, in looks: a small graph is left to top-down. (Beamer, Asanovic
// and Patterson, SC 2012, compare the edges of both sides. On graphs of few edges per vertex that turns too early: each
// vertex looks through its whole list for nothing.)
__device__ __forceinline__ bool bottom_up_pays(double edges, double rest, double unvisited, double alpha, double turn)
{
    if (edges * alpha <= turn) return false;  // saves small levels a division, which takes as long as a load
    const double looks = min(rest, unvisited * ((edges + rest) / edges));
    return edges * alpha > looks + turn;
}

// Bottom-up: a warp per word of `before`, a lane per unvisited vertex, which stops at its first visited in-neighbour.
// A lane looks at `probes` of them; what is left then is searched by the whole warp, 32 at a time, so that one long
// list does not hold 31 lanes up. Each word has one writer: no atomics but one per block, for the tally.
__device__ __forceinline__ void pull_level(index_t n, int k, int probes, const offset_t* __restrict__ row_ptr,
                                           const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                           int* level, const unsigned* before, unsigned* after, word64_t* tally)
{
    SPG_SHARED_VAR(word64_t, block_tally);
    if (threadIdx.x == 0) block_tally = 0;
    __syncthreads();
    const int lane = threadIdx.x & 31;
    word64_t mine = 0;
    for (long long word = warp_of_grid(); word < words_of(n); word += warps_of_grid()) {
        const unsigned seen = before[word];
        unsigned found = 0;
        if (seen != 0xffffffffu) {
            const long long v = word * 32 + lane;
            offset_t e = 0, end = 0;
            if (!(seen >> lane & 1)) {
                e = col_ptr[v];
                end = col_ptr[v + 1];
            }
            bool hit = false;
            for (int i = 0; i < probes && e < end && !hit; ++i) {
                const index_t u = row[e++];
                hit = before[u / 32] >> u % 32 & 1;
            }
            for (unsigned open = __ballot_sync(SPG_FULL_WARP, !hit && e < end); open; open &= open - 1) {
                const int owner = __ffs((int)open) - 1;
                const offset_t last = __shfl_sync(SPG_FULL_WARP, end, owner);
                bool any = false;
                for (offset_t from = __shfl_sync(SPG_FULL_WARP, e, owner); !any && from < last;
                     from += min((offset_t)32, last - from)) {
                    bool there = false;
                    if (lane < last - from) {
                        const index_t u = row[from + lane];
                        there = before[u / 32] >> u % 32 & 1;
                    }
                    any = __any_sync(SPG_FULL_WARP, there);
                }
                if (lane == owner) hit = any;
            }
            found = __ballot_sync(SPG_FULL_WARP, hit);
            if (hit) {
                level[v] = k + 1;
                const offset_t degree = row_ptr[v + 1] - row_ptr[v];
                if (degree > 0) mine += tally_of(1, degree);
            }
        }
        if (lane == 0) after[word] = seen | found;
    }
    mine = lane_0_sum(mine);
    if (lane == 0 && mine) atomicAdd(&block_tally, mine);
    __syncthreads();
    if (threadIdx.x == 0 && block_tally) atomicAdd(tally + (k + 1) % 3, block_tally);
}

// The frontier of level k as a queue, after level k - 1 was bottom-up: the bits that `after` has and `before` has
// not. `tally` is one word of its own, zero before.
__device__ __forceinline__ void queue_found(index_t n, int k, const offset_t* __restrict__ row_ptr,
                                            const unsigned* before, const unsigned* after, index_t* queue,
                                            offset_t* start, word64_t* tally)
{
    const long long out = (long long)(k & 1) * n;
    const int lane = threadIdx.x & 31;
    warp_gather found{gather_slots(), 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, row_ptr, queue + out, start + out, tally);
    };
    for (long long base = warp_of_grid() * 32; base < words_of(n); base += warps_of_grid() * 32) {
        // A word per lane; few have bits, and those few are spread over the warp.
        const unsigned mine = base + lane < words_of(n) ? after[base + lane] & ~before[base + lane] : 0;
        for (unsigned some = __ballot_sync(SPG_FULL_WARP, mine != 0); some; some &= some - 1) {
            const int owner = __ffs((int)some) - 1;
            const unsigned bits = __shfl_sync(SPG_FULL_WARP, mine, owner);
            found.add(bits >> lane & 1, (index_t)((base + owner) * 32 + lane), flush);
        }
    }
    found.rest(flush);
}
