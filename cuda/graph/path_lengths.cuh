// path_lengths.cuh: lengths of paths, float or int, as integers that atomicMin lowers.
#pragma once

#include "../common/spg.cuh"

// Non-negative floats are ordered as their bits are, read as integers; so lengths are held, compared and lowered
// (atomicMin) as integers. Sums of integers stop at 2^31 - 1, which is `unreached` and lowers nothing.
__device__ __forceinline__ int unreached_as(int) { return 0x7fffffff; }
__device__ __forceinline__ int unreached_as(float) { return 0x7f800000; }
__device__ __forceinline__ int length_plus(int length, int weight)
{
    const unsigned sum = (unsigned)length + (unsigned)weight;
    return sum > 0x7fffffffu ? 0x7fffffff : (int)sum;
}
__device__ __forceinline__ int length_plus(int length, float weight)
{
    return __float_as_int(__fadd_rn(__int_as_float(length), weight));
}
