// values.cuh: the values of a matrix's entries: an array, or with SPG_ONE_VALUE the one value that all of them have.
#pragma once
#include "quad.cuh"

#ifdef SPG_ONE_VALUE
typedef value_t values_t;
__device__ __forceinline__ value_t value_of(values_t one, long long) { return one; }
__device__ __forceinline__ value_t gather_value_if(values_t one, long long, bool) { return one; }
__device__ __forceinline__ value_t stream_value(values_t one, long long) { return one; }
__device__ __forceinline__ value_t stream_value_if(values_t one, long long, bool) { return one; }
__device__ __forceinline__ value_quad stream_values(values_t one, long long) { return {{one, one, one, one}}; }
#else
typedef const value_t* __restrict__ values_t;
__device__ __forceinline__ value_t value_of(values_t val, long long e) { return val[e]; }
__device__ __forceinline__ value_t gather_value_if(values_t val, long long e, bool wanted)
{
    return spg_gather_if(val + e, wanted);
}
// For arrays that are read once (see stream.cuh): one value, if wanted, and four from a multiple of 4 on.
__device__ __forceinline__ value_t stream_value(values_t val, long long e) { return spg_stream(val + e); }
__device__ __forceinline__ value_t stream_value_if(values_t val, long long e, bool wanted)
{
    return spg_stream_if(val + e, wanted);
}
__device__ __forceinline__ value_quad stream_values(values_t val, long long e) { return stream_quad(val, e); }
#endif
