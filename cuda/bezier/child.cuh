// child.cuh: the child grid of a curve.
#pragma once

#include "../common/children.cuh"
#include "curve.cuh"

// All points of one curve, a thread per point.
SPG_KERNEL write_curve(const float2* control, int curve, int n, float2* vertices)
{
    const int j = threadIdx.x;
    if (j < n) vertices[j] = curve_point(load_curve(control, curve), j, n);
}

// Whole warps for n points: 32 to 256 threads.
__device__ __forceinline__ int threads_for(int n) { return (n + 31) / 32 * 32; }
