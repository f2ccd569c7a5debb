// source_sums.cuh: Brandes' two passes from up to 64 sources together, once sources.cuh has found the levels.
//
// Layout   paths double [n][width]: forward the number of shortest paths from each source, s beside s + 1; backward,
//          from the last level up, the share that a vertex passes on: 1 / paths + sum, see path_sums.cuh.
//          there word64_t [2][n]: bit s of a vertex says that its level from source s is the one at hand, or the one
//          that was. large word64_t [n + 2]: sources of which a level holds a count above 2^400; the level divides what
//          it passes on by that. sums double [long rows][width], 0 between levels: of rows that several warps share.
//          Long rows, of more than SPG_OWN_ROW edges, are those of `row`; `strip` names a place there and `begin`
//          an edge, from which a warp takes SPG_OWN_ROW of them.
// Mapping  a level is a pass over all vertices. A warp takes a vertex, or a strip, and the sums of sources s and s + 32
//          are lane s's, so that a neighbour's numbers are read in whole lines.
// Numbers  path_sums.cuh has them; here a level divides as soon as it holds a large count.
#pragma once

#include "path_sums.cuh"
#include "sources.cuh"

#ifndef SPG_OWN_ROW
#error "SPG_OWN_ROW is not defined: edges of a row that a warp takes alone"
#endif

// Rows that several warps share, of one direction.
struct long_rows {
    const index_t* row;
    int count;
    const index_t* strip;
    const offset_t* begin;
    int strips;
};

struct source_sums {
    index_t n;
    int width;
    double* paths;
    word64_t *there, *large;
    double* sums;
    __device__ __forceinline__ word64_t* at(int k) const { return there + (long long)(k & 1) * n; }
    __device__ __forceinline__ double* of(long long v) const { return paths + v * width; }
};

// The sources from which v is at level k, of levels up to `deepest`.
__device__ __forceinline__ word64_t at_level(const source_words& g, int k, int deepest, long long v)
{
    word64_t bits = g.now[v];
    for (int j = 0; bits && deepest >> j; ++j) {
        const word64_t digit = g.plane(j)[v];
        bits &= k >> j & 1 ? digit : ~digit;
    }
    return bits;
}

// The two sums of a lane.
struct lane_sums {
    double low, high;
};

__device__ __forceinline__ bool has_low(word64_t bits) { return (unsigned)bits >> (threadIdx.x & 31) & 1; }
__device__ __forceinline__ bool has_high(word64_t bits) { return (unsigned)(bits >> 32) >> (threadIdx.x & 31) & 1; }

// Adds up what the neighbours at edges [e, end) have for those sources of `mine` that are also in their word of
// `there`. By a warp, all lanes together.
__device__ __forceinline__ lane_sums gather_sums(const source_sums& b, const word64_t* there,
                                                 const index_t* __restrict__ neighbour, offset_t e, offset_t end,
                                                 word64_t mine)
{
    const int lane = threadIdx.x & 31;
    lane_sums sum{0, 0};
    for (offset_t from = e; from < end; from += 32) {
        const bool has = lane < end - from;
        const index_t u = has ? neighbour[from + lane] : 0;
        const word64_t both = has ? there[u] & mine : 0;
        unsigned some = __ballot_sync(SPG_FULL_WARP, both != 0);
        while (some) {
            const double* at[SPG_ROWS];
            word64_t bits[SPG_ROWS];
            for (int i = 0; i < SPG_ROWS; ++i) {
                const int owner = some ? __ffs((int)some) - 1 : 0;
                const index_t w = __shfl_sync(SPG_FULL_WARP, u, owner);
                const word64_t with = __shfl_sync(SPG_FULL_WARP, both, owner);
                at[i] = b.of(w) + lane;
                bits[i] = some ? with : 0;
                some &= some - 1;
            }
            double low[SPG_ROWS], high[SPG_ROWS];
            for (int i = 0; i < SPG_ROWS; ++i) {
                low[i] = has_low(bits[i]) ? at[i][0] : 0;
                high[i] = has_high(bits[i]) ? at[i][32] : 0;
            }
            for (int i = 0; i < SPG_ROWS; ++i) {
                sum.low += low[i];
                sum.high += high[i];
            }
        }
    }
    return sum;
}

// What a level divides by, and the sums of a lane divided.
__device__ __forceinline__ void divide(lane_sums& sum, word64_t large)
{
    if (has_low(large)) sum.low *= SPG_DIVISION;
    if (has_high(large)) sum.high *= SPG_DIVISION;
}

// Forward: the counts of v, whose level is k from the sources in `mine`.
__device__ __forceinline__ void store_counts(const source_sums& b, int k, long long v, word64_t mine, lane_sums sum)
{
    divide(sum, b.large[k - 1]);
    double* at = b.of(v) + (threadIdx.x & 31);
    if (has_low(mine)) at[0] = sum.low;
    if (has_high(mine)) at[32] = sum.high;
    const unsigned low = __ballot_sync(SPG_FULL_WARP, has_low(mine) && sum.low > SPG_LARGE_COUNT);
    const unsigned high = __ballot_sync(SPG_FULL_WARP, has_high(mine) && sum.high > SPG_LARGE_COUNT);
    const word64_t large = (word64_t)high << 32 | low;
    if ((threadIdx.x & 31) == 0 && large & ~load_grid(b.large + k)) atomicOr(b.large + k, large);
}

// Backward: the dependencies of v, and what it passes on.
__device__ __forceinline__ void store_shares(const source_sums& b, int k, long long v, word64_t mine, lane_sums sum,
                                             double* dependency)
{
    divide(sum, b.large[k]);
    const int lane = threadIdx.x & 31;
    double* at = b.of(v) + lane;
    if (has_low(mine)) {
        const double count = at[0];
        if (sum.low != 0) dependency[lane] = count * sum.low;
        at[0] = 1.0 / count + sum.low;
    }
    if (has_high(mine)) {
        const double count = at[32];
        if (sum.high != 0) dependency[lane + 32] = count * sum.high;
        at[32] = 1.0 / count + sum.high;
    }
}

// One level k of a pass over edges ptr, neighbour: sums over what the neighbours at level `from` have, and for each
// vertex store(v, its sources, sums). By the whole grid; there is a barrier behind it.
template <class Store>
__device__ __forceinline__ void sum_level(const source_words& g, const source_sums& b, int k, int from, int deepest,
                                          const offset_t* __restrict__ ptr, const index_t* __restrict__ neighbour,
                                          const long_rows& shared, unsigned* barrier, Store store)
{
    const int lane = threadIdx.x & 31;
    const word64_t* there = b.at(from);
    word64_t* mine = b.at(k);
    const bool any = from <= deepest;  // the last level has nothing behind it
    for (long long i = warp_of_grid(); any && i < shared.strips; i += warps_of_grid()) {
        const int which = shared.strip[i];
        const index_t v = shared.row[which];
        const word64_t bits = at_level(g, k, deepest, v);
        if (!bits) continue;
        const offset_t e = shared.begin[i], end = min(ptr[v + 1], e + (offset_t)SPG_OWN_ROW);
        const lane_sums sum = gather_sums(b, there, neighbour, e, end, bits);
        double* at = b.sums + (long long)which * b.width + lane;
        if (sum.low != 0) atomicAdd(at, sum.low);
        if (sum.high != 0) atomicAdd(at + 32, sum.high);
    }
    for (long long base = warp_of_grid() * 32; base < g.n; base += warps_of_grid() * 32) {
        const long long v = base + lane;
        word64_t bits = 0;
        offset_t e = 0, end = 0;
        if (v < g.n) {
            bits = at_level(g, k, deepest, v);
            mine[v] = bits;
            if (bits) {
                e = ptr[v];
                end = ptr[v + 1];
                if (end - e > SPG_OWN_ROW) bits = 0;  // in strips
            }
        }
        for (unsigned some = __ballot_sync(SPG_FULL_WARP, bits != 0); some; some &= some - 1) {
            const int owner = __ffs((int)some) - 1;
            const word64_t with = __shfl_sync(SPG_FULL_WARP, bits, owner);
            const offset_t begin = __shfl_sync(SPG_FULL_WARP, e, owner), last = __shfl_sync(SPG_FULL_WARP, end, owner);
            store(base + owner, with, gather_sums(b, there, neighbour, begin, any ? last : begin, with));
        }
    }
    grid_barrier(barrier);
    if (shared.count == 0) return;
    for (long long i = warp_of_grid(); i < shared.count; i += warps_of_grid()) {
        const index_t v = shared.row[i];
        const word64_t bits = at_level(g, k, deepest, v);
        if (!bits) continue;
        double* at = b.sums + i * b.width + lane;
        lane_sums sum{0, 0};
        if (has_low(bits)) {
            sum.low = at[0];
            at[0] = 0;
        }
        if (has_high(bits)) {
            sum.high = at[32];
            at[32] = 0;
        }
        store(v, bits, sum);
    }
    grid_barrier(barrier);
}
