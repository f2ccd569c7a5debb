// split.cuh: a block deals the points of a node out to its four quadrants.
//
// Layout   pairs pair_t [2][n]: points of nodes that are yet to be split, in two buffers: those of depth d in buffer d
//          % 2. The points of a leaf are not moved on: they go to `order`.
// Threads  All threads of a block, of whole warps, call both functions; a warp takes 32 points at a time. Lanes with
//          points of one quadrant find each other by votes, and one atomic in shared memory reserves places for them.
#pragma once

#include "tree.cuh"

// What the kernels of one tree share; children get it by value.
struct tree_t {
    int leaf, depth;
    pair_t *even, *odd;  // buffers of even and of odd depths
    node_t* nodes;
    int *order, *node_count;
};

__device__ __forceinline__ bool is_split(const tree_t& tree, int points, int depth)
{
    return points > tree.leaf && depth < tree.depth;
}

// Points [begin, end) by quadrant, into counted[4] in shared memory. Ends with a barrier.
__device__ __forceinline__ void count_quadrants(const pair_t* __restrict__ in, int begin, int end, int depth,
                                                int* counted)
{
    const int lane = threadIdx.x & 31;
    if (threadIdx.x < 4) counted[threadIdx.x] = 0;
    __syncthreads();
    int mine = 0;  // lane q counts quadrant q
    for (int i = begin + (int)(threadIdx.x - lane); i < end; i += blockDim.x) {
        const bool active = i + lane < end;
        const int q = active ? quadrant(in[i + lane].code, depth) : 0;
        const unsigned some = __ballot_sync(SPG_FULL_WARP, active), right = __ballot_sync(SPG_FULL_WARP, q & 1),
                       upper = __ballot_sync(SPG_FULL_WARP, q & 2);
        mine += __popc((lane & 1 ? right : ~right) & (lane & 2 ? upper : ~upper) & some);
    }
    if (lane < 4 && mine) atomicAdd(counted + lane, mine);
    __syncthreads();
}

// Calls put(quadrant, place, point) for the points [begin, end); place counts up from cursor[quadrant], which is in
// shared memory and was set before a barrier. Ends without one.
template <class Put>
__device__ __forceinline__ void deal_out(const pair_t* __restrict__ in, int begin, int end, int depth, int* cursor,
                                         Put put)
{
    const int lane = threadIdx.x & 31;
    for (int i = begin + (int)(threadIdx.x - lane); i < end; i += blockDim.x) {
        const bool active = i + lane < end;
        pair_t pair = {0, 0};
        if (active) pair = in[i + lane];
        const int q = active ? quadrant(pair.code, depth) : 0;
        const unsigned some = __ballot_sync(SPG_FULL_WARP, active), right = __ballot_sync(SPG_FULL_WARP, q & 1),
                       upper = __ballot_sync(SPG_FULL_WARP, q & 2);
        int base = 0;
        if (lane < 4) {
            const int found = __popc((lane & 1 ? right : ~right) & (lane & 2 ? upper : ~upper) & some);
            if (found) base = atomicAdd(cursor + lane, found);
        }
        base = __shfl_sync(SPG_FULL_WARP, base, q);
        const unsigned peers = (q & 1 ? right : ~right) & (q & 2 ? upper : ~upper) & some;
        if (active) put(q, base + __popc(peers & ((1u << lane) - 1)), pair);
    }
}

// The numbers of points before each quadrant, and of all.
struct quarters_t {
    int begin[5];
};
__device__ __forceinline__ quarters_t quarters(const int* counted, int begin)
{
    quarters_t at;
    at.begin[0] = begin;
    for (int q = 0; q < 4; ++q) at.begin[q + 1] = at.begin[q] + counted[q];
    return at;
}

// Where deal_out puts points of a node of this depth: on to the next buffer, or, if their box is a leaf, to `order`.
__device__ __forceinline__ void put_pair(const tree_t& tree, int depth, bool split, int place, pair_t pair)
{
    if (split)
        (depth & 1 ? tree.even : tree.odd)[place] = pair;
    else
        tree.order[place] = pair.point;
}

// Codes of all points, side by side with their numbers.
SPG_KERNEL make_pairs(int n, const float2* __restrict__ point, pair_t* __restrict__ pairs)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        pairs[i] = pair_t{code_of(point[i]), (int)i};
}
