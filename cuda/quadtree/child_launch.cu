// child_launch.cu: a quadtree by recursion: every node that has too many points launches its children.
//
// Layout   pairs as split.cuh has them; nodes, order and the number of nodes, as tree.cuh has them; tally, slot_count
//          and children as grow.cuh has them, which tells how launches follow each other, too.
// Mapping  A block per node; a grid of blocks for a large node. `grow` starts it all from one block.
// Wins     The code says what a quadtree is, and the host takes no part.
// Loses    Most nodes have some hundred points: a microsecond of work for a launch that costs a good part of one. And
//          the pool of waiting launches must have a place, about 9 KB each, for every node with a child that is split,
//          or for n / (leaf + 1), if that is less (grow.cuh).
// Idea     NVIDIA's sample cdpQuadtree, which launches a grid of four blocks per node; written anew.
#define SPG_FINISH 0
#include "grow.cuh"

// The root; all other kernels are in grow.cuh.
SPG_KERNEL grow(int n, int leaf, int depth, int large, int chunk, pair_t* even, pair_t* odd, node_t* nodes, int* order,
                int* node_count, int* tally, int* slot_count, unsigned long long* children)
{
    grow_root({{leaf, depth, even, odd, nodes, order, node_count}, large, chunk, tally, slot_count, children}, n);
}
