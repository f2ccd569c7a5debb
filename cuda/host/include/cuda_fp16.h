// cuda_fp16.h for the host device: IEEE half precision, each operation done in float and rounded to nearest even.
#pragma once

#include "../spg_host.hpp"

namespace spg {
inline unsigned short half_bits(float value)
{
    unsigned x = bits<unsigned>(value);
    const unsigned sign = x >> 16 & 0x8000u;
    x &= 0x7fffffffu;
    if (x > 0x7f800000u) return 0x7fff;                             // CUDA's NaN
    if (x >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);  // from 65,520 on: infinity
    if (x < 0x38800000u) {  // subnormal: 0.5f has the unit in the last place that half's subnormals have
        const float sum = bits<float>(x) + 0.5f;
        return (unsigned short)(sign | (bits<unsigned>(sum) - 0x3f000000u));
    }
    x += 0xfffu + (x >> 13 & 1);
    return (unsigned short)(sign | (x - 0x38000000u) >> 13);
}
inline float half_value(unsigned short half)
{
    const unsigned sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) {
        const float size = (float)rest * 0x1p-24f;
        return sign ? -size : size;
    }
    return bits<float>(sign | ((rest << 13) + 0x38000000u));
}
}  // namespace spg

struct __half {
    unsigned short raw;
    __half() = default;
    __half(float x) : raw(spg::half_bits(x)) {}
    __half(double x) : raw(spg::half_bits((float)x)) {}
    __half(int x) : raw(spg::half_bits((float)x)) {}
    __half(unsigned x) : raw(spg::half_bits((float)x)) {}
    operator float() const { return spg::half_value(raw); }
};
typedef __half half;
struct alignas(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

#define SPG_SMALL_FLOAT(type)                                                          \
    static inline type operator+(type a, type b) { return type((float)a + (float)b); } \
    static inline type operator-(type a, type b) { return type((float)a - (float)b); } \
    static inline type operator*(type a, type b) { return type((float)a * (float)b); } \
    static inline type operator/(type a, type b) { return type((float)a / (float)b); } \
    static inline type operator-(type a) { return type(-(float)a); }                   \
    static inline type& operator+=(type& a, type b) { return a = a + b; }              \
    static inline type& operator-=(type& a, type b) { return a = a - b; }              \
    static inline type& operator*=(type& a, type b) { return a = a * b; }              \
    static inline type& operator/=(type& a, type b) { return a = a / b; }              \
    static inline bool operator==(type a, type b) { return (float)a == (float)b; }     \
    static inline bool operator!=(type a, type b) { return (float)a != (float)b; }     \
    static inline bool operator<(type a, type b) { return (float)a < (float)b; }       \
    static inline bool operator>(type a, type b) { return (float)a > (float)b; }       \
    static inline bool operator<=(type a, type b) { return (float)a <= (float)b; }     \
    static inline bool operator>=(type a, type b) { return (float)a >= (float)b; }     \
    static inline type __hadd(type a, type b) { return a + b; }                        \
    static inline type __hsub(type a, type b) { return a - b; }                        \
    static inline type __hmul(type a, type b) { return a * b; }                        \
    static inline type __hdiv(type a, type b) { return a / b; }                        \
    static inline type __hneg(type a) { return -a; }                                   \
    static inline type __hfma(type a, type b, type c)                                  \
    {                                                                                  \
        return type((float)((double)(float)a * (float)b + (double)(float)c));          \
    }                                                                                  \
    static inline bool __hlt(type a, type b) { return a < b; }                         \
    static inline bool __hgt(type a, type b) { return a > b; }                         \
    static inline bool __heq(type a, type b) { return a == b; }                        \
    static inline bool __hisnan(type a) { return (float)a != (float)a; }               \
    SPG_ATOMIC_AS(atomicAdd, type, old + value, SPG_OTHER, 0)
SPG_SMALL_FLOAT(__half)

static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline __half __double2half(double x) { return __half(x); }
static inline float __half2float(__half x) { return x; }
static inline __half __ushort_as_half(unsigned short x)
{
    __half h;
    h.raw = x;
    return h;
}
static inline unsigned short __half_as_ushort(__half x) { return x.raw; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half2 __half2half2(__half x) { return {x, x}; }
static inline __half2 __float2half2_rn(float x) { return {x, x}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
static inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
static inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline float __low2float(__half2 v) { return v.x; }
static inline float __high2float(__half2 v) { return v.y; }
static inline __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
static inline __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

namespace spg {
SPG_KIND(__half, 'f')
}
