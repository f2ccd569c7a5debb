// cached.cuh: loads of what the launch itself writes, which L1 may keep until the next barrier.
#pragma once
#include "../common/spg.cuh"

// What has become of x is written and gathered in the same launch, so not a load of read-only data (ld.global.nc, as
// spg_gather): one that L1 may keep until the next barrier.
#ifdef SPG_HOST
static inline value_t load_cached(const value_t* p) { return *p; }
static inline void load_cached_unless(bool have, const value_t* p, value_t& v)
{
    if (!have) v = *p;
}
#else
__device__ __forceinline__ float load_cached(const float* p)
{
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ double load_cached(const double* p)
{
    double v;
    asm volatile("ld.global.f64 %0, [%1];" : "=d"(v) : "l"(p) : "memory");
    return v;
}
// The same into v, unless what is wanted is there already. The predicate is in the load: no branch (see stream.cuh).
__device__ __forceinline__ void load_cached_unless(bool have, const float* p, float& v)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @!q ld.global.f32 %0, [%1]; }"
                 : "+f"(v)
                 : "l"(p), "r"((int)have)
                 : "memory");
}
__device__ __forceinline__ void load_cached_unless(bool have, const double* p, double& v)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @!q ld.global.f64 %0, [%1]; }"
                 : "+d"(v)
                 : "l"(p), "r"((int)have)
                 : "memory");
}
#endif
