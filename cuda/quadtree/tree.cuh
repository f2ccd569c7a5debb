// tree.cuh: what a quadtree of points is here, and Morton codes.
//
// Layout   point   float2 [n]: coordinates in [0, 1).
//          code    unsigned: 16 bits of x and of y, interleaved, x lowest: the top 2 d bits name the box of depth d
//                  that the point is in. 65,536 is a power of two, so coordinates are cut off, never rounded: a point
//                  is in a box by its code if and only if it is by comparing its coordinates.
//          node    node_t [..]: the root is node 0. A node with more than `leaf` points and a depth below `depth` is
//                  split: its four children stand next to each other from node.child on, by quadrant (1: right half,
//                  2: upper half). A leaf has child -1; children without points are leaves of no points.
//          order   int [n]: the points, by number, so that those of a node are order[begin .. end). Children share
//                  the range of their node in order of quadrant, so every point is in one leaf. The order of points
//                  within a leaf is free.
// Boxes are not stored: they follow from the way down from the root.
#pragma once

#include "../common/spg.cuh"

#define SPG_CODE_DEPTH 16  // levels that a code can tell apart

struct alignas(16) node_t {
    int begin, end, child, depth;
};

// A point on its way: its code, so that it is computed once, and its number.
struct alignas(8) pair_t {
    unsigned code;
    int point;
};

__device__ __forceinline__ unsigned spread_bits(unsigned v)
{
    v = (v | v << 8) & 0x00ff00ffu;
    v = (v | v << 4) & 0x0f0f0f0fu;
    v = (v | v << 2) & 0x33333333u;
    return (v | v << 1) & 0x55555555u;
}

__device__ __forceinline__ unsigned code_of(float2 p)
{
    const unsigned x = min((unsigned)(p.x * 65536.0f), 65535u), y = min((unsigned)(p.y * 65536.0f), 65535u);
    return spread_bits(x) | spread_bits(y) << 1;
}

// The quadrant that a point of a node of this depth falls into.
__device__ __forceinline__ int quadrant(unsigned code, int depth) { return code >> (30 - 2 * depth) & 3; }

// How many levels two codes share: 0 to 16.
__device__ __forceinline__ int levels_shared(unsigned a, unsigned b)
{
    return a == b ? SPG_CODE_DEPTH : __clz((int)(a ^ b)) / 2;
}
