// hybrid.cu: children while nodes are large, and then one block finishes the whole subtree.
//
// Layout   As child_launch.cu.
// Mapping  As child_launch.cu, but a node of at most 2,048 points launches nothing any more (finish_group): 256 threads
//          sort its points by code in shared memory and read all nodes of the subtree off the codes, by the rule of
//          flattened.cu.
// Wins     A launch pays for about 100 nodes instead of for one.
// Loses    To flattened.cu, by what its launches of large nodes cost.
// Idea     child_launch.cu above that size, flattened.cu below it.
#define SPG_FINISH 2048
#define SPG_FINISH_THREADS 256
#include "../common/scan.cuh"
#include "grow.cuh"

SPG_KERNEL finish_group(growth_t g, int first, unsigned group)
{
    SPG_SHARED(unsigned long long, sorted, SPG_FINISH);  // code << 32 | point
    SPG_SHARED(int, rank, SPG_FINISH);
    SPG_SHARED_VAR(int, base);
    const tree_t& tree = g.tree;
    const int node = node_of_group(first, group);
    const node_t me = tree.nodes[node];
    const int held = me.end - me.begin;
    int size = 64;
    while (size < held) size *= 2;
    const pair_t* in = (me.depth & 1 ? tree.odd : tree.even) + me.begin;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        sorted[i] = i < held ? (unsigned long long)in[i].code << 32 | (unsigned)in[i].point : ~0ull;
    // Bitonic sort: runs of length 2, 4, ... are merged, each in steps of falling distance.
    for (int run = 2; run <= size; run *= 2)
        for (int distance = run / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
                const int low = 2 * i - (i & (distance - 1)), high = low + distance;
                const unsigned long long a = sorted[low], b = sorted[high];
                if ((a > b) == ((low & run) == 0)) {
                    sorted[low] = b;
                    sorted[high] = a;
                }
            }
        }
    __syncthreads();
    const auto code = [&](int i) { return (unsigned)(sorted[i] >> 32); };
    const auto first_depth = [&](int i) { return i == 0 ? me.depth : levels_shared(code(i - 1), code(i)) + 1; };
    // How many split nodes begin at i.
    const auto splits = [&](int i) {
        if (i + tree.leaf >= held) return 0;
        return max(0, min(levels_shared(code(i), code(i + tree.leaf)), tree.depth - 1) + 1 - first_depth(i));
    };
    int mine = 0, total = 0;
    for (int i = threadIdx.x; i < held; i += blockDim.x) mine += splits(i);
    int number = block_exclusive_sum(mine, total);
    if (threadIdx.x == 0) {
        base = atomicAdd(tree.node_count, 4 * total);
        tree.nodes[node].child = base;  // its own are the first ones
    }
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        tree.order[me.begin + i] = (int)(unsigned)sorted[i];
        rank[i] = number;
        number += splits(i);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        const int count = splits(i), depth = first_depth(i);
        for (int d = 0; d < count; ++d) {
            // The four children of the node of depth `depth + d` that begins at i.
            const int deeper = depth + d + 1, shift = 32 - 2 * deeper;
            const unsigned family = code(i) >> shift & ~3u;
            int begin = i;
            for (int q = 0; q < 4; ++q) {
                int end = begin, beyond = held;
                while (end < beyond) {
                    const int middle = (end + beyond) / 2;
                    if (code(middle) >> shift <= family + q)
                        end = middle + 1;
                    else
                        beyond = middle;
                }
                const bool opened = is_split(tree, end - begin, deeper);
                tree.nodes[base + 4 * (rank[i] + d) + q] =
                    node_t{me.begin + begin, me.begin + end,
                           opened ? base + 4 * (rank[begin] + deeper - first_depth(begin)) : -1, deeper};
                begin = end;
            }
        }
    }
}

// The root; all other kernels are in grow.cuh.
SPG_KERNEL grow(int n, int leaf, int depth, int large, int chunk, pair_t* even, pair_t* odd, node_t* nodes, int* order,
                int* node_count, int* tally, int* slot_count, unsigned long long* children)
{
    grow_root({{leaf, depth, even, odd, nodes, order, node_count}, large, chunk, tally, slot_count, children}, n);
}
