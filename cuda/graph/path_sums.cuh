// path_sums.cuh: counting shortest paths from a source, and summing up who is on them (Brandes' betweenness): what a
// vertex keeps, and what passes along an edge.
//
// Forward, level by level: how many shortest paths lead to each vertex. Backward, from the last level to the first: the
// dependency of a vertex v, the sum over its successors w (out-neighbours one level further) of
//     count(v) / count(w) * (1 + dependency(w)).
// What is kept is sum(v), the sum over successors of share(w) = 1 / count(w) + sum(w). Then dependency(v) is count(v) *
// sum(v), and a vertex passes one number on, without knowing to whom.
//
// Layout   level int32 [n]: -1 until found; paths {count, sum} float64 [n][2], both 0 until found, so that one sector
//          answers for both; scale int32 [n + 3]: see Numbers.
#pragma once

#include "../common/warp.cuh"

#define SPG_LARGE_COUNT 0x1p400
#define SPG_DIVISION 0x1p-400

// Numbers  Counts grow beyond any type: a grid graph of 1,000 x 1,000 has 10^600 paths from corner to corner. They are
//          float64, and scaled: once a level holds a count above 2^400, the next level divides what it passes on by
//          2^400, which is exact. So all counts of a level are scaled alike, and backward the same levels multiply by
//          the same. scale int32 [n + 3]: bit 0, level k holds a large count; bit 1, level k divides. Within one level
//          counts may be 2^1400 apart; beyond that a count becomes 0, its share infinite, and the result is NaN,
//          never a wrong one.
//          All terms are positive: nothing cancels, and relative errors only add up (see problems/bc.py).
// Races    A count is added to by atomics while its level is being found, and read a barrier later; so with sums.

struct alignas(16) path_sums {
    double count, sum;
};

// What level k multiplies by when it passes counts on. To be asked by all threads, after the barrier that ends the
// level before.
__device__ __forceinline__ double forward_factor(const int* scale, int k)
{
    return k > 0 && scale[k - 1] == 1 ? SPG_DIVISION : 1.0;
}

// For one thread of the grid, in level k: marks what the level does, clears what the next one will write.
__device__ __forceinline__ void mark_level(int* scale, int k, double factor)
{
    scale[k + 1] = 0;
    if (factor != 1.0) atomicOr(scale + k, 2);
}

// What v, a vertex of level k, passes on.
__device__ __forceinline__ double passed_on(index_t v, int k, double factor, const path_sums* paths, int* scale)
{
    const double count = paths[v].count;
    if (count > SPG_LARGE_COUNT && !(load_grid(scale + k) & 1)) atomicOr(scale + k, 1);
    return count * factor;
}

// An edge from level k to w, along which `given` paths come; true if this thread is the one that finds w.
__device__ __forceinline__ bool lead_to(index_t w, int k, double given, int* level, path_sums* paths)
{
    int there = load_grid(level + w);
    bool won = false;
    if (there == -1) {
        there = atomicCAS(level + w, -1, k + 1);
        won = there == -1;
    }
    if (won || there == k + 1) atomicAdd(&paths[w].count, given);
    return won;
}

// What w passes back to each of its predecessors. Its level is done.
__device__ __forceinline__ double share_of(index_t w, const path_sums* paths)
{
    const path_sums p = paths[w];
    return 1.0 / p.count + p.sum;
}

__device__ __forceinline__ double backward_factor(const int* scale, int k) { return scale[k] & 2 ? SPG_DIVISION : 1.0; }
