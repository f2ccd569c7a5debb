// spg_host.hpp: CUDA's words for a plain C++ compiler. Kernel files see it through common/spg.cuh only.
//
// What is here means what the CUDA programming guide says it means, so that a kernel that is right here is right
// there; where CUDA leaves something undefined the runtime reports it or gives junk (see spg_runtime.cpp).
// Kept lean, because every kernel file is compiled for several types: no standard C++ header with templates, and
// C's own <math.h>, so kernel files must not include <cmath>. <cooperative_groups.h>, <mma.h>, <cuda_fp16.h> and
// <cuda_bf16.h> have their counterparts in include/.
#pragma once

#include "spg_runtime.hpp"

#ifndef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // libstdc++'s <math.h> is <cmath>, five times the compile time
#define SPG_UNDO_NEXT
#endif
#include <math.h>
#include <stdlib.h>
#ifdef SPG_UNDO_NEXT
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#undef SPG_UNDO_NEXT
#endif
#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// ---- the words of the language --------------------------------------------------------------------------

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static_assert(false, "write SPG_SHARED(type, name, count), so that the host device can run it too");

#define SPG_KERNEL extern "C" __attribute__((visibility("default"), used)) void
// One heap block per declaration and live CUDA block, of exactly the array's size.
#ifdef SPG_HOOKS  // findings name arrays
#define SPG_SHARED_MEMORY(name, type, element) \
    spg_named_shared(&spg_##name##_declared, sizeof(type), alignof(type), #name, sizeof(element))
#define SPG_DYNAMIC_MEMORY(name, element) spg_named_dynamic_shared(#name, sizeof(element))
#else
#define SPG_SHARED_MEMORY(name, type, element) spg_shared(&spg_##name##_declared, sizeof(type), alignof(type))
#define SPG_DYNAMIC_MEMORY(name, element) spg_dynamic_shared()
#endif
#define SPG_SHARED(type, name, count)   \
    static char spg_##name##_declared;  \
    typedef type spg_##name##_t[count]; \
    spg_##name##_t& name = *static_cast<spg_##name##_t*>(SPG_SHARED_MEMORY(name, spg_##name##_t, type))
#define SPG_SHARED_2D(type, name, rows, columns) \
    static char spg_##name##_declared;           \
    typedef type spg_##name##_t[rows][columns];  \
    spg_##name##_t& name = *static_cast<spg_##name##_t*>(SPG_SHARED_MEMORY(name, spg_##name##_t, type))
#define SPG_SHARED_VAR(type, name)     \
    static char spg_##name##_declared; \
    type& name = *static_cast<type*>(SPG_SHARED_MEMORY(name, type, type))
#define SPG_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(SPG_DYNAMIC_MEMORY(name, type))

#define threadIdx (const_cast<const uint3&>(spg_self->thread_idx))
#define blockIdx (spg_self->block->block_idx)
#define blockDim (spg_self->block->block_dim)
#define gridDim (spg_self->block->grid_dim)
static constexpr int warpSize = 32;

namespace spg {
template <class T> struct plain {
    typedef T type;
};
template <class T> struct plain<T&> {
    typedef T type;
};
template <class T> struct plain<const T> {
    typedef T type;
};
template <class A, class B> struct same {
    static constexpr bool value = false;
};
template <class A> struct same<A, A> {
    static constexpr bool value = true;
};
template <class To, class From> inline To bits(From from)  // of the shorter of the two
{
    To to{};
    memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
    return to;
}
}  // namespace spg

// ---- vector types ---------------------------------------------------------------------------------------

#define SPG_VECTOR(name, type, align2, align4)                                         \
    struct name##1 { type x; };                                                        \
    struct alignas(align2) name##2 { type x, y; };                                     \
    struct alignas(align4) name##4 { type x, y, z, w; };                               \
    static inline name##1 make_##name##1(type x) { return {x}; }                       \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define SPG_VECTORS(name, type, align2, align4) \
    struct name##3 { type x, y, z; };           \
    SPG_VECTOR(name, type, align2, align4)
SPG_VECTOR(uint, unsigned, 8, 16)  // uint3 is in spg_runtime.hpp
SPG_VECTORS(char, signed char, 2, 4)
SPG_VECTORS(uchar, unsigned char, 2, 4)
SPG_VECTORS(short, short, 4, 8)
SPG_VECTORS(ushort, unsigned short, 4, 8)
SPG_VECTORS(int, int, 8, 16)
SPG_VECTORS(longlong, long long, 16, 16)
SPG_VECTORS(ulonglong, unsigned long long, 16, 16)
SPG_VECTORS(float, float, 8, 16)
SPG_VECTORS(double, double, 16, 16)

// ---- arithmetic -----------------------------------------------------------------------------------------

#define SPG_MINMAX(type)                                                       \
    static inline constexpr type min(type a, type b) { return b < a ? b : a; } \
    static inline constexpr type max(type a, type b) { return a < b ? b : a; }
SPG_MINMAX(int)
SPG_MINMAX(unsigned)
SPG_MINMAX(long)
SPG_MINMAX(unsigned long)
SPG_MINMAX(long long)
SPG_MINMAX(unsigned long long)
#define SPG_MIXED(a_type, b_type, result)                                                        \
    static inline constexpr result min(a_type a, b_type b) { return min((result)a, (result)b); } \
    static inline constexpr result max(a_type a, b_type b) { return max((result)a, (result)b); } \
    static inline constexpr result min(b_type a, a_type b) { return min((result)a, (result)b); } \
    static inline constexpr result max(b_type a, a_type b) { return max((result)a, (result)b); }
SPG_MIXED(int, unsigned, unsigned)
SPG_MIXED(int, unsigned long, unsigned long)
SPG_MIXED(long, unsigned long, unsigned long)
SPG_MIXED(int, unsigned long long, unsigned long long)
SPG_MIXED(long long, unsigned long long, unsigned long long)
// of a number and a NaN, the number
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline double min(float a, double b) { return __builtin_fmin(a, b); }
static inline double max(float a, double b) { return __builtin_fmax(a, b); }
static inline double min(double a, float b) { return __builtin_fmin(a, b); }
static inline double max(double a, float b) { return __builtin_fmax(a, b); }

#define SPG_MATH1(name) \
    static inline float name(float x) { return __builtin_##name##f(x); }
SPG_MATH1(sqrt)
SPG_MATH1(cbrt)
SPG_MATH1(fabs)
SPG_MATH1(floor)
SPG_MATH1(ceil)
SPG_MATH1(trunc)
SPG_MATH1(round)
SPG_MATH1(rint)
SPG_MATH1(exp)
SPG_MATH1(exp2)
SPG_MATH1(expm1)
SPG_MATH1(log)
SPG_MATH1(log2)
SPG_MATH1(log10)
SPG_MATH1(log1p)
SPG_MATH1(sin)
SPG_MATH1(cos)
SPG_MATH1(tan)
SPG_MATH1(asin)
SPG_MATH1(acos)
SPG_MATH1(atan)
SPG_MATH1(sinh)
SPG_MATH1(cosh)
SPG_MATH1(tanh)
SPG_MATH1(erf)
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float pow(float x, float y) { return __builtin_powf(x, y); }
static inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }
static inline float hypot(float x, float y) { return __builtin_hypotf(x, y); }
static inline float atan2(float x, float y) { return __builtin_atan2f(x, y); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float fmin(float x, float y) { return __builtin_fminf(x, y); }
static inline float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
static inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
static inline bool isnan(float x) { return __builtin_isnan(x); }
static inline bool isnan(double x) { return __builtin_isnan(x); }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isinf(double x) { return __builtin_isinf(x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
static inline bool signbit(float x) { return __builtin_signbit(x); }
static inline bool signbit(double x) { return __builtin_signbit(x); }
static inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
// glibc has declarations of its own with these names
#define __expf(x) __builtin_expf(x)
#define __logf(x) __builtin_logf(x)
#define __powf(x, y) __builtin_powf(x, y)

static inline int __float_as_int(float x) { return spg::bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return spg::bits<unsigned>(x); }
static inline float __int_as_float(int x) { return spg::bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return spg::bits<float>(x); }
static inline long long __double_as_longlong(double x) { return spg::bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return spg::bits<double>(x); }
static inline int __float2int_rn(float x) { return (int)__builtin_rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)__builtin_floorf(x); }
static inline int __float2int_ru(float x) { return (int)__builtin_ceilf(x); }
static inline float __int2float_rn(int x) { return (float)x; }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}

// ---- announced accesses ---------------------------------------------------------------------------------

namespace spg {

// The shim's own reads and writes, reported to the race detector and to the trace as what they stand for; what the
// compiler's hooks see meanwhile does not count. Costs nothing where kernels are compiled without hooks.
#ifdef SPG_HOOKS
struct announced {
    __forceinline__ announced(const volatile void* address, size_t bytes, unsigned what)
    {
        spg_access(address, (unsigned)bytes, what);
        ++spg_quiet;
        __asm__ volatile("" ::: "memory");  // the access, and its hook, stay between
    }
    __forceinline__ ~announced()
    {
        __asm__ volatile("" ::: "memory");
        --spg_quiet;
    }
};
#else
struct announced {
    announced(const volatile void*, size_t, unsigned) {}
    ~announced() {}
};
#endif

enum order { relaxed = 0, acquire = SPG_ACQUIRE, release = SPG_RELEASE, acq_rel = SPG_ACQUIRE | SPG_RELEASE };
enum scope { gpu = 0, cta = SPG_CTA };

template <unsigned what, class T> __forceinline__ T hinted_load(const T* address)
{
    const announced here(address, sizeof(T), SPG_READ | what);
    return *address;
}
template <class T> __forceinline__ void hinted_store(T* address, T value)
{
    const announced here(address, sizeof(T), SPG_WRITE);
    *address = value;
}
__forceinline__ void switch_point()
{
    if ((++spg_relaxed_loads & spg_switch_mask) == 0) spg_switch();
}
// A thread that is stopped at a relaxed access has read, and has not written yet: what another does meanwhile is what
// an atomic would have kept out.
template <order how, scope who, class T> __forceinline__ T ordered_load(const T* address)
{
    if (how == acquire) spg_yield();
    T value;
    {
        const announced here(address, sizeof(T), SPG_READ | SPG_STRONG | how | who);
        value = *(const volatile T*)address;
    }
    if (how != acquire) switch_point();
    return value;
}
template <order how, scope who, class T> __forceinline__ void ordered_store(T* address, T value)
{
    switch_point();
    const announced here(address, sizeof(T), SPG_WRITE | SPG_STRONG | how | who);
    *(volatile T*)address = value;
}
template <order how, scope who, class T> __forceinline__ T ordered_add(T* address, T value)
{
    spg_count_atomic(address, SPG_OTHER);  // an arrival, which takes no place
    const announced here(address, sizeof(T), SPG_READ | SPG_WRITE | SPG_STRONG | how | who);
    const T old = *address;
    *address = (T)(old + value);
    return old;
}

}  // namespace spg

// ---- loads and stores with a cache hint -----------------------------------------------------------------

#define SPG_LOAD(name, what) \
    template <class T> static __forceinline__ T name(const T* address) { return spg::hinted_load<what>(address); }
SPG_LOAD(__ldg, SPG_READ_ONLY)
SPG_LOAD(__ldca, 0)
SPG_LOAD(__ldcg, SPG_L2)
SPG_LOAD(__ldcs, 0)
SPG_LOAD(__ldlu, 0)
template <class T> static __forceinline__ T __ldcv(const T* address)
{
    spg_yield();
    const spg::announced here(address, sizeof(T), SPG_READ | SPG_STRONG | SPG_L2);
    return *(const volatile T*)address;
}
#define SPG_STORE(name) \
    template <class T> static __forceinline__ void name(T* address, T value) { spg::hinted_store(address, value); }
SPG_STORE(__stwb)
SPG_STORE(__stcg)
SPG_STORE(__stcs)
SPG_STORE(__stwt)

// ---- fences, clocks -------------------------------------------------------------------------------------

#ifdef SPG_HOOKS
#define SPG_FENCE(block_only) spg_fence(block_only)
#else
#define SPG_FENCE(block_only) ((void)0)
#endif
static inline void __threadfence() { SPG_FENCE(0), spg_yield(); }
static inline void __threadfence_block() { SPG_FENCE(1), spg_yield(); }
static inline void __threadfence_system() { SPG_FENCE(0), spg_yield(); }
static inline void __nanosleep(unsigned) { spg_yield(); }
static inline long long clock64() { return spg_nanoseconds(); }
static inline int clock() { return (int)spg_nanoseconds(); }
static inline void __trap(spg_site here = SPG_HERE) { spg_trap("__trap()", here); }
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : spg_trap("assert(" #condition ") failed", SPG_HERE))
#endif
#define __builtin_assume(condition) ((void)0)

// ---- barriers -------------------------------------------------------------------------------------------

static inline void __syncthreads(spg_site here = SPG_HERE) { spg_barrier("__syncthreads", 0, nullptr, here); }
static inline int __syncthreads_count(int predicate, spg_site here = SPG_HERE)
{
    return (int)spg_barrier("__syncthreads_count", predicate, nullptr, here);
}
static inline int __syncthreads_or(int predicate, spg_site here = SPG_HERE)
{
    return spg_barrier("__syncthreads_or", predicate, nullptr, here) != 0;
}
static inline int __syncthreads_and(int predicate, spg_site here = SPG_HERE)
{
    unsigned arrived;
    return spg_barrier("__syncthreads_and", predicate, &arrived, here) == arrived;
}

// ---- warp collectives -----------------------------------------------------------------------------------

static inline void __syncwarp(unsigned mask = 0xffffffffu, spg_site here = SPG_HERE)
{
    spg_lane mine{};
    spg_warp(SPG_WARP_SYNC, "__syncwarp", mask, &mine, here);
}
static inline unsigned __activemask(spg_site here = SPG_HERE) { return spg_active_mask(here); }

namespace spg {

template <class T> inline T shuffle(const char* what, unsigned mask, T value, int source, spg_site here)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes a lane");
    spg_lane mine{};
    mine.in = bits<unsigned long long>(value);
    mine.source = source;
    spg_warp(SPG_WARP_SHUFFLE, what, mask, &mine, here);
    return bits<T>(mine.out);
}

inline int lane() { return (int)(spg_self->rank % 32); }

inline spg_lane vote(const char* what, spg_warp_op op, unsigned mask, unsigned long long value, spg_site here)
{
    spg_lane mine{};
    mine.in = value;
    spg_warp(op, what, mask, &mine, here);
    return mine;
}

template <class T, class F> inline T reduce(const char* what, unsigned mask, T value, F combine, spg_site here)
{
    unsigned long long all[32];
    spg_lane mine{};
    mine.in = bits<unsigned long long>(value);
    mine.all = all;
    spg_warp(SPG_WARP_GATHER, what, mask, &mine, here);
    bool first = true;
    T total{};
    for (int i = 0; i < 32; ++i)
        if (mine.present >> i & 1) {
            const T next = bits<T>(all[i]);
            total = first ? next : combine(total, next);
            first = false;
        }
    return total;
}

}  // namespace spg

// Source lanes as PTX's shfl computes them: segments of `width` lanes; out of the segment means one's own value.
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, spg_site here = SPG_HERE)
{
    const int first = spg::lane() & ~(width - 1);
    return spg::shuffle("__shfl_sync", mask, value, first + (source & (width - 1)), here);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, spg_site here = SPG_HERE)
{
    const int source = spg::lane() - (int)delta, first = spg::lane() & ~(width - 1);
    return spg::shuffle("__shfl_up_sync", mask, value, source < first ? spg::lane() : source, here);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, spg_site here = SPG_HERE)
{
    const int source = spg::lane() + (int)delta, last = spg::lane() | (width - 1);
    return spg::shuffle("__shfl_down_sync", mask, value, source > last ? spg::lane() : source, here);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, spg_site here = SPG_HERE)
{
    const int source = spg::lane() ^ lanes, last = spg::lane() | (width - 1);
    return spg::shuffle("__shfl_xor_sync", mask, value, source > last ? spg::lane() : source, here);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, spg_site here = SPG_HERE)
{
    return (unsigned)spg::vote("__ballot_sync", SPG_WARP_BALLOT, mask, predicate != 0, here).out;
}
static inline int __any_sync(unsigned mask, int predicate, spg_site here = SPG_HERE)
{
    return spg::vote("__any_sync", SPG_WARP_BALLOT, mask, predicate != 0, here).out != 0;
}
static inline int __all_sync(unsigned mask, int predicate, spg_site here = SPG_HERE)
{
    const spg_lane mine = spg::vote("__all_sync", SPG_WARP_BALLOT, mask, predicate != 0, here);
    return mine.out == mine.present;
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, spg_site here = SPG_HERE)
{
    return (unsigned)spg::vote("__match_any_sync", SPG_WARP_MATCH, mask, spg::bits<unsigned long long>(value), here)
        .out;
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int* all, spg_site here = SPG_HERE)
{
    const spg_lane mine =
        spg::vote("__match_all_sync", SPG_WARP_MATCH, mask, spg::bits<unsigned long long>(value), here);
    *all = mine.out == mine.present;
    return *all ? mask : 0;
}
#define SPG_REDUCE(name, type, expression)                                                               \
    static inline type name(unsigned mask, type value, spg_site here = SPG_HERE)                         \
    {                                                                                                    \
        return spg::reduce(#name, mask, value, [](type a, type b) { return (type)(expression); }, here); \
    }
SPG_REDUCE(__reduce_add_sync, unsigned, a + b)
SPG_REDUCE(__reduce_add_sync, int, (unsigned)a + (unsigned)b)
SPG_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
SPG_REDUCE(__reduce_min_sync, int, b < a ? b : a)
SPG_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
SPG_REDUCE(__reduce_max_sync, int, a < b ? b : a)
SPG_REDUCE(__reduce_and_sync, unsigned, a& b)
SPG_REDUCE(__reduce_or_sync, unsigned, a | b)
SPG_REDUCE(__reduce_xor_sync, unsigned, a ^ b)

// ---- atomics --------------------------------------------------------------------------------------------

// Threads switch only at waits and yields, so plain operations are atomic. Every one is counted.
#define SPG_ATOMIC_AS(name, type, expression, kind, who)                             \
    static __forceinline__ type name(type* address, type value)                      \
    {                                                                                \
        spg_count_atomic(address, kind);                                             \
        const spg::announced here(address, sizeof(type), SPG_ATOMIC_ACCESS | (who)); \
        const type old = *address;                                                   \
        *address = (type)(expression);                                               \
        return old;                                                                  \
    }
#define SPG_ATOMIC_OF(kind, name, type, expression)              \
    SPG_ATOMIC_AS(name, type, expression, kind, 0)               \
    SPG_ATOMIC_AS(name##_block, type, expression, kind, SPG_CTA) \
    SPG_ATOMIC_AS(name##_system, type, expression, kind, 0)
#define SPG_ATOMIC(name, type, expression) SPG_ATOMIC_OF(SPG_OTHER, name, type, expression)
typedef unsigned long long spg_u64;
typedef long long spg_i64;
SPG_ATOMIC_OF(SPG_RESERVE, atomicAdd, int, (unsigned)old + (unsigned)value)
SPG_ATOMIC_OF(SPG_RESERVE, atomicAdd, unsigned, old + value)
SPG_ATOMIC_OF(SPG_RESERVE, atomicAdd, spg_u64, old + value)
SPG_ATOMIC(atomicAdd, float, old + value)
SPG_ATOMIC(atomicAdd, double, old + value)
SPG_ATOMIC(atomicSub, int, (unsigned)old - (unsigned)value)
SPG_ATOMIC(atomicSub, unsigned, old - value)
SPG_ATOMIC(atomicExch, int, value)
SPG_ATOMIC(atomicExch, unsigned, value)
SPG_ATOMIC(atomicExch, spg_u64, value)
SPG_ATOMIC(atomicExch, float, value)
SPG_ATOMIC(atomicMin, int, value < old ? value : old)
SPG_ATOMIC(atomicMin, unsigned, value < old ? value : old)
SPG_ATOMIC(atomicMin, spg_i64, value < old ? value : old)
SPG_ATOMIC(atomicMin, spg_u64, value < old ? value : old)
SPG_ATOMIC(atomicMax, int, old < value ? value : old)
SPG_ATOMIC(atomicMax, unsigned, old < value ? value : old)
SPG_ATOMIC(atomicMax, spg_i64, old < value ? value : old)
SPG_ATOMIC(atomicMax, spg_u64, old < value ? value : old)
SPG_ATOMIC(atomicAnd, int, old& value)
SPG_ATOMIC(atomicAnd, unsigned, old& value)
SPG_ATOMIC(atomicAnd, spg_u64, old& value)
SPG_ATOMIC_OF(SPG_CLAIM, atomicOr, int, old | value)
SPG_ATOMIC_OF(SPG_CLAIM, atomicOr, unsigned, old | value)
SPG_ATOMIC_OF(SPG_CLAIM, atomicOr, spg_u64, old | value)
SPG_ATOMIC(atomicXor, int, old ^ value)
SPG_ATOMIC(atomicXor, unsigned, old ^ value)
SPG_ATOMIC(atomicXor, spg_u64, old ^ value)
SPG_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
SPG_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#define SPG_CAS_AS(name, type, who)                                                  \
    static __forceinline__ type name(type* address, type compare, type value)        \
    {                                                                                \
        spg_count_atomic(address, SPG_CLAIM);                                        \
        const spg::announced here(address, sizeof(type), SPG_ATOMIC_ACCESS | (who)); \
        const type old = *address;                                                   \
        if (old == compare) *address = value;                                        \
        return old;                                                                  \
    }
#define SPG_CAS(type)                          \
    SPG_CAS_AS(atomicCAS, type, 0)             \
    SPG_CAS_AS(atomicCAS_block, type, SPG_CTA) \
    SPG_CAS_AS(atomicCAS_system, type, 0)
SPG_CAS(int)
SPG_CAS(unsigned)
SPG_CAS(spg_u64)
SPG_CAS(unsigned short)

// ---- launches from the device ---------------------------------------------------------------------------

typedef const struct spg_stream* cudaStream_t;
static const cudaStream_t cudaStreamFireAndForget = (cudaStream_t)-1;
static const cudaStream_t cudaStreamTailLaunch = (cudaStream_t)-2;
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorLaunchPendingCountExceeded = 69,
    cudaErrorInvalidResourceHandle = 400,
};
static const unsigned cudaStreamNonBlocking = 1;
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags)
{
    const void* made = nullptr;
    const int error = spg_stream_create(&made, flags == cudaStreamNonBlocking);
    *stream = (cudaStream_t)made;
    return (cudaError_t)error;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return (cudaError_t)spg_stream_destroy(stream); }
static inline cudaError_t cudaGetLastError() { return (cudaError_t)spg_last_error(1); }
static inline cudaError_t cudaPeekAtLastError() { return (cudaError_t)spg_last_error(0); }
#define malloc(bytes) spg_device_malloc(bytes)
#define free(pointer) spg_device_free(pointer)

namespace spg {

template <int...> struct indices {};
template <int n, int... rest> struct count_to : count_to<n - 1, n - 1, rest...> {};
template <int... all> struct count_to<0, all...> {
    typedef indices<all...> type;
};

template <class... P> struct caller {
    template <int... i> static inline void expand(void (*kernel)(P...), void** arguments, indices<i...>)
    {
        kernel(*static_cast<typename plain<P>::type*>(arguments[i])...);
    }
    static void call(void* kernel, void** arguments)
    {
        (void)arguments;
        expand(reinterpret_cast<void (*)(P...)>(kernel), arguments, typename count_to<sizeof...(P)>::type());
    }
};

template <class... P> struct launcher {
    const char* name;
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    spg_site here;
    void operator()(P... arguments) const
    {
        void* pointers[] = {nullptr, (void*)&arguments...};
        const size_t sizes[] = {0, sizeof(arguments)...};
        spg_launch_child(name, caller<P...>::call, (void*)kernel, pointers + 1, sizes + 1, sizeof...(P), grid, block,
                         shared,
                         stream == cudaStreamFireAndForget ? SPG_FIRE_AND_FORGET
                         : stream == cudaStreamTailLaunch  ? SPG_TAIL
                                                           : SPG_STREAM,
                         stream, here);
    }
};
template <class... P>
inline launcher<P...> child(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                            cudaStream_t stream, spg_site here)
{
    return {name, kernel, grid, block, shared, stream, here};
}

// What the host has to pass: per parameter its kind (p, i, u, f, s), size, and kind and size of what it points to.
template <class T> struct kind {
    static constexpr bool builtin = false;
    static constexpr char value = 's';
};
#define SPG_KIND(type, letter)                \
    template <> struct kind<type> {           \
        static constexpr bool builtin = true; \
        static constexpr char value = letter; \
    };
SPG_KIND(bool, 'b')
SPG_KIND(char, 'c')
SPG_KIND(signed char, 'i')
SPG_KIND(unsigned char, 'u')
SPG_KIND(short, 'i')
SPG_KIND(unsigned short, 'u')
SPG_KIND(int, 'i')
SPG_KIND(unsigned, 'u')
SPG_KIND(long, 'i')
SPG_KIND(unsigned long, 'u')
SPG_KIND(long long, 'i')
SPG_KIND(unsigned long long, 'u')
SPG_KIND(float, 'f')
SPG_KIND(double, 'f')
template <class T> struct naked {
    typedef T type;
};
template <class T> struct naked<const T> {
    typedef typename naked<T>::type type;
};
template <class T> struct naked<volatile T> {
    typedef typename naked<T>::type type;
};
template <class T> struct naked<const volatile T> {
    typedef typename naked<T>::type type;
};
struct parameter {
    unsigned char kind, size, target_kind, target_size;
    const unsigned char* all() const { return &kind; }
};
template <class T> struct describe {
    static constexpr parameter value{(unsigned char)kind<T>::value, sizeof(T), 0, 0};
};
template <class T> struct describe<T*> {
    typedef typename naked<T>::type target;
    static constexpr parameter value{'p', sizeof(T*), (unsigned char)kind<target>::value, sizeof(target)};
};
template <> struct describe<void*> {
    static constexpr parameter value{'p', sizeof(void*), 's', 0};
};
template <> struct describe<const void*> : describe<void*> {};

struct export_entry {
    spg_call call;
    void* kernel;
    const parameter* parameters;
    int count;
};
template <class... P> struct signature {
    static constexpr parameter list[sizeof...(P) + 1] = {
        describe<typename naked<typename plain<P>::type>::type>::value...};
};
template <class... P> inline export_entry entry(void (*kernel)(P...))
{
    return {caller<P...>::call, (void*)kernel, signature<P...>::list, (int)sizeof...(P)};
}

}  // namespace spg

#ifdef SPG_HOOKS
namespace spg {
// Tells the runtime a kernel's name, the names of its parameters (comma after each), and which are const __restrict__.
struct described {
    described(const char* name, const export_entry& entry, const char* parameters, unsigned long long read_only)
    {
        spg_describe(name, entry.kernel, entry.parameters->all(), entry.count, parameters, read_only);
    }
};
}  // namespace spg
#endif

#define SPG_LAUNCH(kernel, grid, block, shared_bytes, stream) \
    ::spg::child(#kernel, kernel, grid, block, shared_bytes, stream, SPG_HERE)
