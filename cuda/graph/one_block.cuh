// one_block.cuh: levels of a small frontier by one block, without a grid barrier between them.
#pragma once

#include "levels.cuh"

#define SPG_NEAR 1024  // frontier vertices that fit in shared memory

// What a small frontier is: at most `vertices` (never more than SPG_NEAR) with at most `edges` out-edges.
struct small_frontier {
    int vertices;
    long long edges;
    __device__ __forceinline__ bool holds(word64_t tally) const
    {
        return tally_count(tally) <= min(vertices, SPG_NEAR) && tally_edges(tally) <= edges;
    }
};

// Runs level after level from level k on, as long as the frontier is small and not empty; returns the level it
// stopped before, whose queue is then in global memory as any other level's and whose tally is in `after`. That is
// not `tally`, because other blocks may not have read that yet, although this one is done. `unexplored` is lowered
// by the edges of the levels done. To be called by all threads of one block, after a grid barrier.
//
// The queue lies in shared memory; each level costs one block barrier. A level may find more vertices than fit there
// (one hub is enough): every vertex goes to the global queue as well, so nothing is lost, and the block stops.
__device__ __forceinline__ int one_block_levels(index_t n, int k, small_frontier small,
                                                const offset_t* __restrict__ row_ptr,
                                                const index_t* __restrict__ col, int* level, unsigned* visited,
                                                index_t* queue, offset_t* start, const word64_t* tally,
                                                word64_t* after, long long& unexplored, long long* trace, int trace_levels, int how)
{
    SPG_SHARED_2D(index_t, near_queue, 2, SPG_NEAR);
    SPG_SHARED_2D(offset_t, near_start, 2, SPG_NEAR);
    SPG_SHARED(word64_t, near_tally, 3);
    word64_t now = tally[k % 3];
    for (long long i = threadIdx.x; i < tally_count(now); i += blockDim.x) {
        near_queue[k & 1][i] = queue[(long long)(k & 1) * n + i];
        near_start[k & 1][i] = start[(long long)(k & 1) * n + i];
    }
    if (threadIdx.x == 0) {
        near_tally[k % 3] = now;
        near_tally[(k + 1) % 3] = 0;
    }
    __syncthreads();
    while (now != 0 && small.holds(now)) {
        if (threadIdx.x == 0) {
            near_tally[(k + 2) % 3] = 0;
            if (k < trace_levels) {
                trace[2 * k] = spg_nanoseconds();
                trace[2 * k + 1] = how;
            }
        }
        const int next = ~k & 1;
        unexplored -= tally_edges(now);
        expand_edges(near_queue[k & 1], near_start[k & 1], now, row_ptr, col, threadIdx.x / 32, blockDim.x / 32,
                     [&](bool active, index_t, index_t w) {
                         // Asked for before it is known to be wanted: a level is short, waiting is what it costs.
                         offset_t degree = active ? row_ptr[w + 1] - row_ptr[w] : 0;
                         const bool won = active && visit<true>(w, visited);
                         if (won) level[w] = k + 1;
                         if (!won) degree = 0;
                         long long position = 0;
                         offset_t before = 0;
                         reserve(degree, near_tally + (k + 1) % 3, position, before);
                         if (degree == 0) return;
                         if (position < SPG_NEAR) {
                             near_queue[next][position] = w;
                             near_start[next][position] = before;
                         }
                         queue[(long long)next * n + position] = w;
                         start[(long long)next * n + position] = before;
                     });
        __syncthreads();
        ++k;
        now = near_tally[k % 3];
    }
    if (threadIdx.x == 0) {
        after[k % 3] = now;
        after[(k + 1) % 3] = 0;
    }
    return k;
}
