// child_launch.cu: a quadtree by recursion: every node that has too many points launches its children.
//
// Computes   nodes, order and the number of nodes, as tree.cuh has them. See grow.cuh for how launches follow each other.
// Threads    A block per node; a grid of blocks for a large node. `grow` starts it all from one block.
// Wins       The code says what a quadtree is. No bound on anything is needed but memory.
// Loses      Most nodes have some hundred points: a microsecond of work for a launch that costs as much. A tree of 10 M
//            points has some 300,000 launches.
// Source     The idea of NVIDIA's sample cdpQuadtree, which launches a grid of four blocks per node; written anew.
#define SPG_FINISH 0
#include "grow.cuh"

// Everything else is launched from here: SPG_LAUNCH(...) stands in grow.cuh.
SPG_KERNEL grow(int n, int leaf, int depth, int large, int chunk, pair_t* even, pair_t* odd, node_t* nodes, int* order,
                int* node_count, int* tally, int* slot_count, unsigned long long* children)
{
    grow_root({{leaf, depth, even, odd, nodes, order, node_count}, large, chunk, tally, slot_count, children}, n);
}
