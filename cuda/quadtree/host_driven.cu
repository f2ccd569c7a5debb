// host_driven.cu: a quadtree level by level; the host reads counts back and plans every level.
//
// Layout   order, as tree.cuh has it; the host makes the nodes from the counts it reads.
//          chunk int4 [chunks]: open node (its place among those of the level), begin and end of its points, 0;
//          counted int [open][4]: points of each quadrant, zero before; cursor int [open][4]: where the next of a
//          quadrant goes, at first where it begins; leaves int [open]: bit q is set where child q is a leaf;
//          pairs as split.cuh has them.
// Mapping  A block per chunk. count_chunks, the host, then scatter_chunks: per level.
// Wins     No device launches, no bounds: the host knows every size before it matters.
// Loses    Two transfers and a wait per level, and the host's own work, which grows with the number of nodes.
// Idea     The plain way, breadth first: a level is a partition of all points of its open nodes by quadrant.
#include "split.cuh"

SPG_KERNEL count_chunks(int depth, const int4* __restrict__ chunk, const pair_t* __restrict__ pairs, int* counted)
{
    SPG_SHARED(int, mine, 4);
    const int4 c = chunk[blockIdx.x];
    count_quadrants(pairs, c.y, c.z, depth, mine);
    if (threadIdx.x < 4 && mine[threadIdx.x]) atomicAdd(counted + 4ll * c.x + threadIdx.x, mine[threadIdx.x]);
}

SPG_KERNEL scatter_chunks(int depth, const int4* __restrict__ chunk, const int* __restrict__ leaves, int* cursor,
                          const pair_t* __restrict__ in, pair_t* __restrict__ out, int* __restrict__ order)
{
    SPG_SHARED(int, mine, 4);
    SPG_SHARED(int, place, 4);
    const int4 c = chunk[blockIdx.x];
    count_quadrants(in, c.y, c.z, depth, mine);
    if (threadIdx.x < 4) place[threadIdx.x] = atomicAdd(cursor + 4ll * c.x + threadIdx.x, mine[threadIdx.x]);
    __syncthreads();
    const int to_order = leaves[c.x];
    deal_out(in, c.y, c.z, depth, place, [&](int q, int at, pair_t pair) {
        if (to_order >> q & 1)
            order[at] = pair.point;
        else
            out[at] = pair;
    });
}
