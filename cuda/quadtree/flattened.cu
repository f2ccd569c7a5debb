// flattened.cu: a quadtree by sorting, in a fixed number of launches, without children and without levels.
//
// Layout   point float2 [n]; nodes, order and the number of nodes, as tree.cuh has them.
//          split int2 [..]: where a split node begins, and its depth; rank int [n]: number of the first split node
//          that begins at each point; codes unsigned [n], sorted; total long long [1]: split nodes.
// State    counters and status of the sort: zero before; state scan_word_t [1 + tiles]: see scan.cuh.
// Mapping  find_split: 256 per block, 8 points each. write_nodes: four per split node, one for each child.
// Wins     Any number and distribution of points; the time hardly depends on them. Bytes are the floor: 8 + 16 a pass
//          and about 30 for the tree, a point.
// Loses    To a tree that stops early in large leaves: the sort is complete where a few levels would have done.
// Idea     Sorting: see radix.cuh. Trees from sorted codes: Karras, "Maximizing parallelism in the construction of
//          BVHs, octrees, and k-d trees" (HPG 2012); the rule for buckets here follows from counting.
#include "radix.cuh"

#define SPG_SPLIT_ITEMS 8

// How      Sorted by Morton code, the points of any box are consecutive. So `order` is what the sort gives (radix.cuh),
//          and all nodes can be read off the codes: - A node of depth d begins at i where codes i - 1
//          and i share fewer than d levels. It is split if it has more
//            than `leaf` points, and so if codes i and i + leaf share at least d. Hence the split nodes that begin at i
//            are those of depth shared(i - 1, i) + 1 to min(shared(i, i + leaf), depth - 1): `find_split` counts them
//            and numbers them all by a prefix sum.
//          - Split node r has its children at 1 + 4 r. Where they begin is found by searching the codes; which number a
//            child that is split itself has, from where it begins.

SPG_KERNEL digit_histograms(int n, int shift, int passes, const float2* __restrict__ point, unsigned* counters)
{
    count_digits(n, shift, passes, point, counters);
}

SPG_KERNEL __launch_bounds__(SPG_SORT_THREADS, 4)
    sort_points(int n, int pass, int shift, const float2* __restrict__ point, unsigned* counters, unsigned* status,
                pair_t* __restrict__ out)
{
    sort_by_digit(
        n, pass, shift, {counters, status}, [&](int i) { return pair_t{code_of(point[i]), i}; },
        [&](unsigned at, pair_t e) { out[at] = e; });
}

SPG_KERNEL __launch_bounds__(SPG_SORT_THREADS, 4)
    sort_pairs(int n, int pass, int shift, const pair_t* __restrict__ in, unsigned* counters, unsigned* status,
               pair_t* __restrict__ out)
{
    sort_by_digit(
        n, pass, shift, {counters, status}, [&](int i) { return in[i]; }, [&](unsigned at, pair_t e) { out[at] = e; });
}

// The last pass. Where it is the only one, `in` is null and points are read.
SPG_KERNEL __launch_bounds__(SPG_SORT_THREADS, 4)
    sort_last(int n, int pass, int shift, const float2* __restrict__ point, const pair_t* __restrict__ in,
              unsigned* counters, unsigned* status, unsigned* __restrict__ codes, int* __restrict__ order)
{
    sort_by_digit(
        n, pass, shift, {counters, status}, [&](int i) { return in ? in[i] : pair_t{code_of(point[i]), i}; },
        [&](unsigned at, pair_t e) {
            codes[at] = e.code;
            order[at] = e.point;
        });
}

// Depth of the first node that begins at i: 17 where none does, as the codes are equal.
__device__ __forceinline__ int first_depth(const unsigned* __restrict__ codes, int i)
{
    return i == 0 ? 0 : levels_shared(codes[i - 1], codes[i]) + 1;
}

SPG_KERNEL find_split(int n, int leaf, int depth, const unsigned* __restrict__ codes, int* __restrict__ rank,
                      int2* __restrict__ split, long long* total, scan_word_t* state)
{
    const scan_turn turn = take_turn(state);
    const long long begin = (long long)turn.tile * SPG_SPLIT_ITEMS * blockDim.x;
    int from[SPG_SPLIT_ITEMS], count[SPG_SPLIT_ITEMS], sum = 0;
#pragma unroll
    for (int k = 0; k < SPG_SPLIT_ITEMS; ++k) {
        const long long i = begin + k * blockDim.x + threadIdx.x;
        from[k] = count[k] = 0;
        if (i + leaf < n) {
            const unsigned code = codes[i];
            from[k] = first_depth(codes, (int)i);
            count[k] = max(0, min(levels_shared(code, codes[i + leaf]), depth - 1) + 1 - from[k]);
            sum += count[k];
        }
    }
    int of_tile = 0;
    const int before = block_exclusive_sum(sum, of_tile);
    if (threadIdx.x == 0) publish(state, turn, of_tile);
    long long number = look_back(state, turn, of_tile, first_look(state, turn));
    if (threadIdx.x == 0 && turn.tile == gridDim.x - 1) *total = number + of_tile;
    number += before;
#pragma unroll
    for (int k = 0; k < SPG_SPLIT_ITEMS; ++k) {
        const long long i = begin + k * blockDim.x + threadIdx.x;
        if (i >= n) continue;
        rank[i] = (int)number;
        for (int d = 0; d < count[k]; ++d) split[number++] = make_int2((int)i, from[k] + d);
    }
}

// The first place from `from` on whose code is `key` or more. Most nodes are small: the step grows by 16 from `least`.
__device__ __forceinline__ int first_not_below(const unsigned* __restrict__ codes, int n, int from, int least,
                                               unsigned long long key)
{
    long long low = from, high = (long long)from + least;
    for (long long step = least; high < n && codes[high] < key; high += step) {
        low = high + 1;
        step *= 16;
    }
    high = min(high, (long long)n);
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (codes[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return (int)low;
}

SPG_KERNEL write_nodes(int n, int leaf, int depth, const unsigned* __restrict__ codes, const int* __restrict__ rank,
                       const int2* __restrict__ split, const long long* __restrict__ total, node_t* __restrict__ nodes,
                       int* __restrict__ node_count)
{
    const long long all = *total * 4, step = (long long)gridDim.x * blockDim.x;
    const long long me = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (me == 0) {
        nodes[0] = node_t{0, n, all > 0 ? 1 : -1, 0};
        *node_count = (int)(all + 1);
    }
    for (long long i = me; i < (all + 31) / 32 * 32; i += step) {  // whole warps
        const bool active = i < all;
        const int2 node = active ? split[i / 4] : make_int2(0, 0);
        const int q = (int)(i & 3), shift = 30 - 2 * node.y;
        int end = 0;
        if (active) {
            const unsigned long long family = node.y == 0 ? 0 : codes[node.x] >> (32 - 2 * node.y);
            end = first_not_below(codes, n, node.x, leaf, (family * 4 + q + 1) << shift);
        }
        const int ends_before = __shfl_up_sync(SPG_FULL_WARP, end, 1);
        if (!active) continue;
        const int begin = q == 0 ? node.x : ends_before, deeper = node.y + 1;
        const bool opened = end - begin > leaf && deeper < depth;
        // Of the split nodes that begin there this is the one of depth `deeper`.
        const int child = opened ? 1 + 4 * (rank[begin] + deeper - first_depth(codes, begin)) : -1;
        nodes[1 + i] = node_t{begin, end, child, deeper};
    }
}
