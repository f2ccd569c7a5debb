// stream.cuh: loads for data that is read once.
//
// ld.global.nc with L1::no_allocate leaves L1 to what is read again. The asm is volatile on purpose: volatile
// statements keep their order, so a run of these loads is issued before anything uses them. Left to itself
// ptxas spreads the loads between the uses to save registers, and the loads in flight with them.
#pragma once
#include "spg.cuh"

#ifdef SPG_HOST

#include <cstring>

template <class T>
static inline T spg_stream(const T* p)
{
    return *p;
}

template <class T>
static inline T spg_gather(const T* p)
{
    return *p;
}

template <class T>
static inline T spg_stream_if(const T* p, bool wanted)
{
    return wanted ? *p : T{};
}

template <class T>
static inline T spg_gather_if(const T* p, bool wanted)
{
    return wanted ? *p : T{};
}

template <int BYTES>
static inline void spg_copy_async(void* shared, const void* global)
{
    std::memcpy(shared, global, BYTES);
}

static inline void spg_copy_commit() {}

template <int PENDING>
static inline void spg_copy_wait()
{
}

#else

__device__ __forceinline__ float4 spg_stream(const float4* p)
{
    float4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "l"(p));
    return r;
}

__device__ __forceinline__ double2 spg_stream(const double2* p)
{
    double2 r;
    asm volatile("ld.global.nc.L1::no_allocate.v2.f64 {%0, %1}, [%2];" : "=d"(r.x), "=d"(r.y) : "l"(p));
    return r;
}

__device__ __forceinline__ int4 spg_stream(const int4* p)
{
    int4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                 : "l"(p));
    return r;
}

__device__ __forceinline__ ushort4 spg_stream(const ushort4* p)
{
    ushort4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u16 {%0, %1, %2, %3}, [%4];"
                 : "=h"(r.x), "=h"(r.y), "=h"(r.z), "=h"(r.w)
                 : "l"(p));
    return r;
}

__device__ __forceinline__ float2 spg_stream(const float2* p)
{
    float2 r;
    asm volatile("ld.global.nc.L1::no_allocate.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "l"(p));
    return r;
}

__device__ __forceinline__ int2 spg_stream(const int2* p)
{
    int2 r;
    asm volatile("ld.global.nc.L1::no_allocate.v2.s32 {%0, %1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(p));
    return r;
}

__device__ __forceinline__ float spg_stream(const float* p)
{
    float r;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(r) : "l"(p));
    return r;
}

__device__ __forceinline__ double spg_stream(const double* p)
{
    double r;
    asm volatile("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(r) : "l"(p));
    return r;
}

__device__ __forceinline__ int spg_stream(const int* p)
{
    int r;
    asm volatile("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}

// The same order without the hint, for gathers of what others read too (x): L1 keeps it.
__device__ __forceinline__ float spg_gather(const float* p)
{
    float r;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(r) : "l"(p));
    return r;
}

__device__ __forceinline__ double spg_gather(const double* p)
{
    double r;
    asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(r) : "l"(p));
    return r;
}

// Loads that may not be wanted: zeros then. The predicate is in the load, since an `if` around it may become a
// branch, and loads that have branches between them are not all under way at once.
__device__ __forceinline__ int4 spg_stream_if(const int4* p, bool wanted)
{
    int4 r = {0, 0, 0, 0};
    asm volatile(
        "{ .reg .pred q; setp.ne.s32 q, %5, 0; @q ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4]; }"
        : "+r"(r.x), "+r"(r.y), "+r"(r.z), "+r"(r.w)
        : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ float4 spg_stream_if(const float4* p, bool wanted)
{
    float4 r = {0, 0, 0, 0};
    asm volatile(
        "{ .reg .pred q; setp.ne.s32 q, %5, 0; @q ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4]; }"
        : "+f"(r.x), "+f"(r.y), "+f"(r.z), "+f"(r.w)
        : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ double2 spg_stream_if(const double2* p, bool wanted)
{
    double2 r = {0, 0};
    asm volatile(
        "{ .reg .pred q; setp.ne.s32 q, %3, 0; @q ld.global.nc.L1::no_allocate.v2.f64 {%0, %1}, [%2]; }"
        : "+d"(r.x), "+d"(r.y)
        : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ int spg_gather_if(const int* p, bool wanted)
{
    int r = 0;
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.s32 %0, [%1]; }"
                 : "+r"(r)
                 : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ long long spg_gather_if(const long long* p, bool wanted)
{
    long long r = 0;
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.s64 %0, [%1]; }"
                 : "+l"(r)
                 : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ float spg_gather_if(const float* p, bool wanted)
{
    float r = 0;
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.f32 %0, [%1]; }"
                 : "+f"(r)
                 : "l"(p), "r"((int)wanted));
    return r;
}

__device__ __forceinline__ double spg_gather_if(const double* p, bool wanted)
{
    double r = 0;
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.f64 %0, [%1]; }"
                 : "+d"(r)
                 : "l"(p), "r"((int)wanted));
    return r;
}

// Copies from global to shared memory that need no registers and that nothing waits for until spg_copy_wait:
// cp.async, from compute capability 8.0 on; before, an ordinary copy. BYTES is 4, 8 or 16.
template <int BYTES>
__device__ __forceinline__ void spg_copy_async(void* shared, const void* global)
{
#if __CUDA_ARCH__ >= 800
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(BYTES) : "memory");
#else
    const unsigned* from = static_cast<const unsigned*>(global);
#pragma unroll
    for (int i = 0; i < BYTES / 4; ++i) static_cast<unsigned*>(shared)[i] = from[i];
#endif
}

// Ends a group of copies.
__device__ __forceinline__ void spg_copy_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the last PENDING groups of this thread are under way; it then sees its own copies.
template <int PENDING>
__device__ __forceinline__ void spg_copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

#endif
