// curve.cuh: a quadratic Bezier curve, how many points it needs, and one of its points.
//
// Layout   control  float2 [curves][3]: first, middle and last control point of each curve. Coordinates are multiples
//                   of 2^-20 of magnitude at most 1: then the criterion below is exact (see points_needed).
//
// A curve of n points has them at t = j / (n - 1), j = 0 .. n - 1, so both ends are among them.
#pragma once

#include "../common/spg.cuh"

#define SPG_LEAST_POINTS 8
#define SPG_MOST_POINTS 256

struct curve_t {
    float2 first, middle, last;
};

__device__ __forceinline__ curve_t load_curve(const float2* __restrict__ control, int curve)
{
    const float2* p = control + 3ll * curve;
    return {p[0], p[1], p[2]};
}

// n = clamp(8 + 256 k, 8, 256), rounded down, with k = |cross| / len^2: `cross` of the chord and the way to the middle
// control point, `len` of the chord; so k is the height of the control triangle over its base, the same for any size.
// A curve that returns to its start has no chord: 256 points, or 8 if it is a mere point.
//
// In double precision. Differences of coordinates have 22 bits, products 44, so `cross` and `len^2` are exact, and the
// quotient is rounded once, by IEEE's rule: every device and numpy find the same n. In float32 the n of one curve in
// some thousands would differ by one.
__device__ __forceinline__ int points_needed(const curve_t& c)
{
    const double ax = (double)c.middle.x - c.first.x, ay = (double)c.middle.y - c.first.y;
    const double bx = (double)c.last.x - c.first.x, by = (double)c.last.y - c.first.y;
    const double cross = fabs(ax * by - ay * bx), square = bx * bx + by * by;
    if (square == 0) return ax == 0 && ay == 0 ? SPG_LEAST_POINTS : SPG_MOST_POINTS;
    const double n = SPG_LEAST_POINTS + 256 * cross / square;
    return n < SPG_MOST_POINTS ? (int)n : SPG_MOST_POINTS;
}

// Point j of n: (1 - t)^2 P0 + 2 t (1 - t) P1 + t^2 P2. The ends come out exactly.
__device__ __forceinline__ float2 curve_point(const curve_t& c, int j, int n)
{
    const float t = (float)j / (float)(n - 1), s = 1 - t;
    const float a = s * s, b = 2 * t * s, d = t * t;
    return make_float2(a * c.first.x + b * c.middle.x + d * c.last.x, a * c.first.y + b * c.middle.y + d * c.last.y);
}
