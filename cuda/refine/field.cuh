// field.cuh: the field, and what it means to refine a cell.
//
// Layout   front double [fronts][5]: x and y of a centre, a radius squared, a sharpness, an amplitude. The field is the
//                sum of `fronts` circular fronts: s = ((x - cx)^2 + (y - cy)^2 - radius^2) * sharpness, cut off at -1
//                and 1, gives amplitude * (1.5 s - 0.5 s^3): flat inside, flat outside, steep along the circle.
//          cell  unsigned: 1 is the unit square; the children of c are 4 c + quadrant (1: right half, 2: upper half).
//                So a cell of depth d is a 1, then the d pairs of bits of its Morton code. Up to depth 15.
//
// A cell is split if it is above depth SPG_BASE, or else if it is above `depth` and the field varies by more than
// `tolerance` over it: the largest less the smallest of its values at 3 x 3 places: corners, middles of sides, middle.
#pragma once

#include "../common/spg.cuh"

#define SPG_BASE 3  // the coarsest cells: 8 x 8

// Everything is double precision, each operation rounded for itself and in one order (no fused multiply-add, hence the
// __d..._rn): so every device and numpy get the same bits and split the same cells, with no cell at the edge of the
// tolerance left to chance.
//
// The unit of work is a cell that is split: its four children are judged together, because their 4 x 9 places are only
// 5 x 5 different ones. One warp does it, a lane per place.

struct field_t {
    int fronts;
    const double* front;
    double tolerance;
    int depth;
};

__device__ __forceinline__ double value_at(const field_t& field, double x, double y)
{
    double sum = 0;
    for (int k = 0; k < field.fronts; ++k) {
        const double* f = field.front + 5 * k;
        const double dx = __dadd_rn(x, -f[0]), dy = __dadd_rn(y, -f[1]);
        const double away = __dadd_rn(__dadd_rn(__dmul_rn(dx, dx), __dmul_rn(dy, dy)), -f[2]);
        const double s = fmin(fmax(__dmul_rn(away, f[3]), -1.0), 1.0);
        const double slope = __dadd_rn(1.5, -__dmul_rn(0.5, __dmul_rn(s, s)));
        sum = __dadd_rn(sum, __dmul_rn(f[4], __dmul_rn(s, slope)));
    }
    return sum;
}

__device__ __forceinline__ int depth_of(unsigned cell) { return (31 - __clz((int)cell)) / 2; }

__device__ __forceinline__ unsigned even_bits(unsigned v)
{
    v &= 0x55555555u;
    v = (v | v >> 1) & 0x33333333u;
    v = (v | v >> 2) & 0x0f0f0f0fu;
    v = (v | v >> 4) & 0x00ff00ffu;
    return (v | v >> 8) & 0x0000ffffu;
}

// Which children of `cell`, which is to be split, are split themselves: bit q for child q, the same in all lanes. All
// 32 lanes come; `values` is for this warp alone, 25 doubles of shared memory.
__device__ __forceinline__ unsigned children_to_split(const field_t& field, unsigned cell, double* values)
{
    const int lane = threadIdx.x & 31, depth = depth_of(cell);
    const unsigned place = cell ^ 1u << 2 * depth;
    __syncwarp();  // what an earlier cell left has been read
    if (lane < 25) {
        // Coordinates are whole multiples of a power of two: exact.
        const double step = 1.0 / (double)(4u << depth);
        values[lane] = value_at(field, (double)(4 * even_bits(place) + lane % 5) * step,
                                (double)(4 * even_bits(place >> 1) + lane / 5) * step);
    }
    __syncwarp();
    bool split = false;
    if (lane < 4 && depth + 1 < field.depth) {
        const double* corner = values + 2 * (lane & 1) + 10 * (lane >> 1);
        double least = corner[0], most = corner[0];
        for (int k = 1; k < 9; ++k) {
            const double v = corner[5 * (k / 3) + k % 3];
            least = fmin(least, v);
            most = fmax(most, v);
        }
        split = depth + 1 < SPG_BASE || __dadd_rn(most, -least) > field.tolerance;
    }
    return __ballot_sync(SPG_FULL_WARP, split);
}
