// quad.cuh: four neighbouring columns or values in one read of 16 bytes (two for doubles).
#pragma once

struct __align__(16) index_quad { index_t at[4]; };
struct __align__(16) value_quad { value_t at[4]; };

// Entries e .. e + 3 of an array; e must be a multiple of 4, the array is allocated on a boundary of 16 bytes.
__device__ __forceinline__ index_quad read_quad(const index_t* __restrict__ a, long long e) {
    return *reinterpret_cast<const index_quad*>(a + e);
}
__device__ __forceinline__ value_quad read_quad(const value_t* __restrict__ a, long long e) {
    return *reinterpret_cast<const value_quad*>(a + e);
}
