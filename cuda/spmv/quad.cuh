// quad.cuh: four neighbouring columns or values in one read of 16 bytes (two for doubles).
#pragma once
#include "../common/stream.cuh"

struct __align__(16) index_quad {
    index_t at[4];
};
struct __align__(16) value_quad {
    value_t at[4];
};

// Entries e .. e + 3 of an array; e must be a multiple of 4, the array is allocated on a boundary of 16 bytes.
__device__ __forceinline__ index_quad read_quad(const index_t* __restrict__ a, long long e)
{
    return *reinterpret_cast<const index_quad*>(a + e);
}
__device__ __forceinline__ value_quad read_quad(const value_t* __restrict__ a, long long e)
{
    return *reinterpret_cast<const value_quad*>(a + e);
}

// The same for arrays that are read once (see stream.cuh).
__device__ __forceinline__ index_quad stream_quad(const index_t* __restrict__ a, long long e)
{
    const int4 q = spg_stream(reinterpret_cast<const int4*>(a + e));
    return {{q.x, q.y, q.z, q.w}};
}
__device__ __forceinline__ value_quad stream_quad(const value_quad* a)
{
    if constexpr (sizeof(value_t) == 4) {
        const float4 q = spg_stream(reinterpret_cast<const float4*>(a));
        return {{(value_t)q.x, (value_t)q.y, (value_t)q.z, (value_t)q.w}};
    } else {
        const double2 p = spg_stream(reinterpret_cast<const double2*>(a));
        const double2 q = spg_stream(reinterpret_cast<const double2*>(a) + 1);
        return {{(value_t)p.x, (value_t)p.y, (value_t)q.x, (value_t)q.y}};
    }
}
__device__ __forceinline__ value_quad stream_quad(const value_t* __restrict__ a, long long e)
{
    return stream_quad(reinterpret_cast<const value_quad*>(a + e));
}

// The same if wanted, otherwise zeros.
__device__ __forceinline__ index_quad stream_quad_if(const index_t* __restrict__ a, long long e, bool wanted)
{
    const int4 q = spg_stream_if(reinterpret_cast<const int4*>(a + e), wanted);
    return {{q.x, q.y, q.z, q.w}};
}
__device__ __forceinline__ value_quad stream_quad_if(const value_t* __restrict__ a, long long e, bool wanted)
{
    if constexpr (sizeof(value_t) == 4) {
        const float4 q = spg_stream_if(reinterpret_cast<const float4*>(a + e), wanted);
        return {{(value_t)q.x, (value_t)q.y, (value_t)q.z, (value_t)q.w}};
    } else {
        const double2 p = spg_stream_if(reinterpret_cast<const double2*>(a + e), wanted);
        const double2 q = spg_stream_if(reinterpret_cast<const double2*>(a + e) + 1, wanted);
        return {{(value_t)p.x, (value_t)p.y, (value_t)q.x, (value_t)q.y}};
    }
}
