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
static __forceinline__ T spg_stream(const T* p)
{
    return spg::hinted_load<SPG_READ_ONLY | SPG_L2>(p);
}

template <class T>
static __forceinline__ T spg_gather(const T* p)
{
    return spg::hinted_load<SPG_READ_ONLY>(p);
}

template <class T>
static __forceinline__ T spg_stream_if(const T* p, bool wanted, T otherwise = T{})
{
    return wanted ? spg_stream(p) : otherwise;
}

template <class T>
static __forceinline__ T spg_gather_if(const T* p, bool wanted)
{
    return wanted ? spg_gather(p) : T{};
}

template <int BYTES>
static __forceinline__ void spg_copy_async(void* shared, const void* global)
{
    const spg::announced from(global, BYTES, SPG_READ | SPG_L2), to(shared, BYTES, SPG_WRITE);
    std::memcpy(shared, global, BYTES);
}

static __forceinline__ void spg_copy_commit() {}

template <int PENDING>
static __forceinline__ void spg_copy_wait()
{
}

#else

#define SPG_STREAM "ld.global.nc.L1::no_allocate"

#define SPG_STREAM_ONE(type, ptx, reg)                                       \
    __device__ __forceinline__ type spg_stream(const type* p)                \
    {                                                                        \
        type r;                                                              \
        asm volatile(SPG_STREAM "." ptx " %0, [%1];" : "=" reg(r) : "l"(p)); \
        return r;                                                            \
    }
SPG_STREAM_ONE(float, "f32", "f")
SPG_STREAM_ONE(double, "f64", "d")
SPG_STREAM_ONE(int, "s32", "r")
SPG_STREAM_ONE(unsigned short, "u16", "h")

#define SPG_STREAM_TWO(type, ptx, reg)                                                                \
    __device__ __forceinline__ type spg_stream(const type* p)                                         \
    {                                                                                                 \
        type r;                                                                                       \
        asm volatile(SPG_STREAM ".v2." ptx " {%0, %1}, [%2];" : "=" reg(r.x), "=" reg(r.y) : "l"(p)); \
        return r;                                                                                     \
    }
SPG_STREAM_TWO(float2, "f32", "f")
SPG_STREAM_TWO(double2, "f64", "d")
SPG_STREAM_TWO(int2, "s32", "r")

#define SPG_STREAM_FOUR(type, ptx, reg)                                       \
    __device__ __forceinline__ type spg_stream(const type* p)                 \
    {                                                                         \
        type r;                                                               \
        asm volatile(SPG_STREAM ".v4." ptx " {%0, %1, %2, %3}, [%4];"         \
                     : "=" reg(r.x), "=" reg(r.y), "=" reg(r.z), "=" reg(r.w) \
                     : "l"(p));                                               \
        return r;                                                             \
    }
SPG_STREAM_FOUR(float4, "f32", "f")
SPG_STREAM_FOUR(int4, "s32", "r")
SPG_STREAM_FOUR(ushort4, "u16", "h")

// The same order without the hint, for what others read too (x): L1 keeps it.
#define SPG_GATHER(type, ptx, reg)                                            \
    __device__ __forceinline__ type spg_gather(const type* p)                 \
    {                                                                         \
        type r;                                                               \
        asm volatile("ld.global.nc." ptx " %0, [%1];" : "=" reg(r) : "l"(p)); \
        return r;                                                             \
    }
SPG_GATHER(int, "s32", "r")
SPG_GATHER(long long, "s64", "l")
SPG_GATHER(float, "f32", "f")
SPG_GATHER(double, "f64", "d")

// Loads that may not be wanted: zeros then, or `otherwise`. The predicate is in the load, since an `if` around it may
// become a branch, and loads that have branches between them are not all in flight. Where it becomes none, each
// load still gets an address of its own, and since registers run out ptxas puts some behind those that wait for others.
#define SPG_IF(operand) "{ .reg .pred q; setp.ne.s32 q, %" #operand ", 0; @q "

#define SPG_STREAM_ONE_IF(type, ptx, reg)                                                                  \
    __device__ __forceinline__ type spg_stream_if(const type* p, bool wanted, type otherwise = 0)          \
    {                                                                                                      \
        type r = otherwise;                                                                                \
        asm volatile(SPG_IF(2) SPG_STREAM "." ptx " %0, [%1]; }" : "+" reg(r) : "l"(p), "r"((int)wanted)); \
        return r;                                                                                          \
    }
SPG_STREAM_ONE_IF(int, "s32", "r")
SPG_STREAM_ONE_IF(float, "f32", "f")
SPG_STREAM_ONE_IF(double, "f64", "d")

#define SPG_STREAM_FOUR_IF(type, ptx, reg)                                        \
    __device__ __forceinline__ type spg_stream_if(const type* p, bool wanted)     \
    {                                                                             \
        type r = {0, 0, 0, 0};                                                    \
        asm volatile(SPG_IF(5) SPG_STREAM ".v4." ptx " {%0, %1, %2, %3}, [%4]; }" \
                     : "+" reg(r.x), "+" reg(r.y), "+" reg(r.z), "+" reg(r.w)     \
                     : "l"(p), "r"((int)wanted));                                 \
        return r;                                                                 \
    }
SPG_STREAM_FOUR_IF(float4, "f32", "f")
SPG_STREAM_FOUR_IF(int4, "s32", "r")

__device__ __forceinline__ double2 spg_stream_if(const double2* p, bool wanted)
{
    double2 r = {0, 0};
    asm volatile(SPG_IF(3) SPG_STREAM ".v2.f64 {%0, %1}, [%2]; }" : "+d"(r.x), "+d"(r.y) : "l"(p), "r"((int)wanted));
    return r;
}

#define SPG_GATHER_IF(type, ptx, reg)                                                                       \
    __device__ __forceinline__ type spg_gather_if(const type* p, bool wanted)                               \
    {                                                                                                       \
        type r = 0;                                                                                         \
        asm volatile(SPG_IF(2) "ld.global.nc." ptx " %0, [%1]; }" : "+" reg(r) : "l"(p), "r"((int)wanted)); \
        return r;                                                                                           \
    }
SPG_GATHER_IF(int, "s32", "r")
SPG_GATHER_IF(long long, "s64", "l")
SPG_GATHER_IF(float, "f32", "f")
SPG_GATHER_IF(double, "f64", "d")

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

// Waits until at most the last PENDING groups of this thread are in flight; it then sees its own copies.
template <int PENDING>
__device__ __forceinline__ void spg_copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

#endif
