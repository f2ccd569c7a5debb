// per_point.cu: a quadtree level by level, a thread per point; the host reads counts back and plans every level.
//
// Layout   point, order: as tree.cuh has them; the host makes the nodes from the counts it reads.
//          node int [n]: the node that the point is in, by its place among those of this level that are split; -1 once
//          the point is in a leaf. counted int [open][4]: points of each quadrant, zero before; cursor int [open][4]:
//          where the next point of a quadrant goes in `order`, at first where the quadrant begins; child int [open][4]:
//          the quadrant's place among the nodes of the next level that are split, -1 where it is a leaf.
// Mapping  Thread p has point p. count_points, the host, then place_points: per level. Points are never moved.
// Wins     On nothing but the length of its source.
// Loses    An atomic in global memory a point and level, of which the first levels have all on a few words; every
//          level looks at all points, also at those that are in leaves; and all that host_driven.cu loses.
// Idea     The plain way, breadth first: in each level every point goes one step down from the node that it is in.
#include "tree.cuh"

SPG_KERNEL count_points(int n, int depth, const float2* __restrict__ point, const int* __restrict__ node, int* counted)
{
    const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n || node[p] < 0) return;
    atomicAdd(counted + 4ll * node[p] + quadrant(code_of(point[p]), depth), 1);
}

SPG_KERNEL place_points(int n, int depth, const float2* __restrict__ point, const int* __restrict__ child, int* node,
                        int* cursor, int* __restrict__ order)
{
    const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n || node[p] < 0) return;
    const long long q = 4ll * node[p] + quadrant(code_of(point[p]), depth);
    if (child[q] < 0) order[atomicAdd(cursor + q, 1)] = (int)p;
    node[p] = child[q];
}
