// grow.cuh: a quadtree that grows by launching children: what the variants with child launches share.
//
// A node is split by one block if it has at most `large` points. A larger one gets a grid of blocks, `chunk` points
// each, in three steps, each of which needs all of the one before it: count_large, scatter_large, open_large. That is
// what tail launches are for: a tail starts when its grid, all blocks of it, is done. Children that no thread waits for
// are launched fire-and-forget: one grid for the nodes among a node's children that one block each can split. A file
// that defines SPG_FINISH has a kernel finish_group for nodes of at most so many points, which need no further launch;
// otherwise it defines it as 0.
//
// Layout   tally int [slots][8]: counts and cursors of the quadrants of a large node, zero before; its slot is taken
//          from slot_count int [1].
//          children  see children.cuh.
#pragma once

#include "../common/children.cuh"
#include "split.cuh"

#define SPG_GROUP_THREADS 128
#define SPG_CHUNK_THREADS 256

// How many launches can be pending: those that are hold different points. A group holds its nodes' points; of a
// large node one step at a time is pending, and its children are launched by the last one. So a pending launch below
// another one's parent belongs to a child that was launched apart. Each has more than `leaf` points: at most n / (leaf
// + 1) are pending. (And of groups at most 4^(depth - 1), and n / large large nodes; and in the whole run at most
// as many as nodes have a child that is split.)

struct growth_t {
    tree_t tree;
    int large, chunk;
    int *tally, *slot_count;
    unsigned long long* children;
};

SPG_KERNEL split_group(growth_t g, int first, unsigned group);
SPG_KERNEL count_large(growth_t g, int node, int slot);
SPG_KERNEL scatter_large(growth_t g, int node, int slot);
SPG_KERNEL open_large(growth_t g, int node, int slot);
#if SPG_FINISH
SPG_KERNEL finish_group(growth_t g, int first, unsigned group);
#endif

// The node that block b of a group's grid works on: the b-th of the nodes first .. first + 3 that are in `group`.
__device__ __forceinline__ int node_of_group(int first, unsigned group)
{
    for (unsigned skip = blockIdx.x; skip > 0; --skip) group &= group - 1;
    return first + __ffs((int)group) - 1;
}

// Thread q of 0 to 3 enters child q of a node of this depth.
__device__ __forceinline__ void enter_children(const tree_t& tree, int node, int depth, int first, const quarters_t& at)
{
    if (threadIdx.x == 0) tree.nodes[node].child = first;
    if (threadIdx.x < 4)
        tree.nodes[first + threadIdx.x] = node_t{at.begin[threadIdx.x], at.begin[threadIdx.x + 1], -1, depth + 1};
}

// A block splits `node`. Returns the first child, in all threads; `at` is where the children's points begin. What was
// written is for the block to see: a barrier comes last.
__device__ __forceinline__ int split_by_block(const tree_t& tree, int node, const node_t& me, quarters_t& at)
{
    SPG_SHARED(int, counted, 4);
    SPG_SHARED(int, cursor, 4);
    SPG_SHARED_VAR(int, first);
    const pair_t* in = me.depth & 1 ? tree.odd : tree.even;
    count_quadrants(in, me.begin, me.end, me.depth, counted);
    at = quarters(counted, me.begin);
    if (threadIdx.x == 0) first = atomicAdd(tree.node_count, 4);
    if (threadIdx.x < 4) cursor[threadIdx.x] = at.begin[threadIdx.x];
    __syncthreads();
    deal_out(in, me.begin, me.end, me.depth, cursor, [&](int q, int place, pair_t pair) {
        put_pair(tree, me.depth, is_split(tree, at.begin[q + 1] - at.begin[q], me.depth + 1), place, pair);
    });
    enter_children(tree, node, me.depth, first, at);
    __syncthreads();
    return first;
}

// A chunk of a large node: how many of its points fall into each quadrant.
__device__ __forceinline__ void count_chunk(const growth_t& g, const node_t& me, int* tally, int* counted)
{
    const int begin = me.begin + (int)blockIdx.x * g.chunk, end = min(me.end, begin + g.chunk);
    count_quadrants(me.depth & 1 ? g.tree.odd : g.tree.even, begin, end, me.depth, counted);
    if (threadIdx.x < 4 && counted[threadIdx.x]) atomicAdd(tally + threadIdx.x, counted[threadIdx.x]);
}

// The same chunk to where it goes: each block reserves places for all its points of a quadrant together.
__device__ __forceinline__ void scatter_chunk(const growth_t& g, const node_t& me, int* tally, int* counted,
                                              int* cursor)
{
    const int begin = me.begin + (int)blockIdx.x * g.chunk, end = min(me.end, begin + g.chunk);
    const pair_t* in = me.depth & 1 ? g.tree.odd : g.tree.even;
    count_quadrants(in, begin, end, me.depth, counted);
    const quarters_t at = quarters(tally, me.begin);
    if (threadIdx.x < 4)
        cursor[threadIdx.x] = at.begin[threadIdx.x] + atomicAdd(tally + 4 + threadIdx.x, counted[threadIdx.x]);
    __syncthreads();
    deal_out(in, begin, end, me.depth, cursor, [&](int q, int place, pair_t pair) {
        put_pair(g.tree, me.depth, is_split(g.tree, at.begin[q + 1] - at.begin[q], me.depth + 1), place, pair);
    });
}

__device__ __forceinline__ void launch_large(const growth_t& g, int node, int points)
{
    const int slot = atomicAdd(g.slot_count, 1);
    SPG_LAUNCH(count_large, (points + g.chunk - 1) / g.chunk, SPG_CHUNK_THREADS, 0, cudaStreamFireAndForget)
    (g, node, slot);
    count_child(g.children);
}

// One thread launches what the nodes first .. first + number - 1 of this depth need; their points begin at at.begin.
__device__ __forceinline__ void launch_nodes(const growth_t& g, int first, int number, int depth, const quarters_t& at)
{
    unsigned group = 0, last = 0;
    for (int q = 0; q < number; ++q) {
        const int points = at.begin[q + 1] - at.begin[q];
        if (!is_split(g.tree, points, depth)) continue;
        if (points > g.large)
            launch_large(g, first + q, points);
        else if (points > SPG_FINISH)
            group |= 1u << q;
        else
            last |= 1u << q;
    }
    if (group) {
        SPG_LAUNCH(split_group, __popc(group), SPG_GROUP_THREADS, 0, cudaStreamFireAndForget)(g, first, group);
        count_child(g.children);
    }
#if SPG_FINISH
    if (last) {
        SPG_LAUNCH(finish_group, __popc(last), SPG_FINISH_THREADS, 0, cudaStreamFireAndForget)(g, first, last);
        count_child(g.children);
    }
#endif
}

SPG_KERNEL split_group(growth_t g, int first, unsigned group)
{
    const int node = node_of_group(first, group);
    const node_t me = g.tree.nodes[node];
    quarters_t at;
    const int child = split_by_block(g.tree, node, me, at);
    if (threadIdx.x == 0) launch_nodes(g, child, 4, me.depth + 1, at);
}

SPG_KERNEL count_large(growth_t g, int node, int slot)
{
    SPG_SHARED(int, counted, 4);
    count_chunk(g, g.tree.nodes[node], g.tally + 8 * slot, counted);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        SPG_LAUNCH(scatter_large, gridDim.x, SPG_CHUNK_THREADS, 0, cudaStreamTailLaunch)(g, node, slot);
        count_child(g.children);
    }
}

SPG_KERNEL scatter_large(growth_t g, int node, int slot)
{
    SPG_SHARED(int, counted, 4);
    SPG_SHARED(int, cursor, 4);
    scatter_chunk(g, g.tree.nodes[node], g.tally + 8 * slot, counted, cursor);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        SPG_LAUNCH(open_large, 1, 32, 0, cudaStreamTailLaunch)(g, node, slot);
        count_child(g.children);
    }
}

SPG_KERNEL open_large(growth_t g, int node, int slot)
{
    SPG_SHARED_VAR(int, first);
    const node_t me = g.tree.nodes[node];
    const quarters_t at = quarters(g.tally + 8 * slot, me.begin);
    if (threadIdx.x == 0) first = atomicAdd(g.tree.node_count, 4);
    __syncthreads();
    enter_children(g.tree, node, me.depth, first, at);
    __syncthreads();
    if (threadIdx.x == 0) launch_nodes(g, first, 4, me.depth + 1, at);
}

// The root of a tree of n points, one block. `tally` is zero before.
__device__ __forceinline__ void grow_root(const growth_t& g, int n)
{
    if (!is_split(g.tree, n, 0))
        for (int i = threadIdx.x; i < n; i += blockDim.x) g.tree.order[i] = g.tree.even[i].point;
    if (threadIdx.x == 0) {
        g.tree.nodes[0] = node_t{0, n, -1, 0};
        *g.tree.node_count = 1;
        *g.slot_count = 0;
        quarters_t all;
        all.begin[0] = 0;
        all.begin[1] = n;
        launch_nodes(g, 0, 1, 0, all);
    }
}
