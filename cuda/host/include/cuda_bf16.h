// cuda_bf16.h for the host device: the upper half of a float, each operation rounded to nearest even.
#pragma once

#include "cuda_fp16.h"

struct __nv_bfloat16 {
    unsigned short raw;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x)
    {
        const unsigned u = spg::bits<unsigned>(x);
        raw = x != x ? 0x7fff : (unsigned short)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
    }
    __nv_bfloat16(double x) : __nv_bfloat16((float)x) {}
    __nv_bfloat16(int x) : __nv_bfloat16((float)x) {}
    operator float() const { return spg::bits<float>((unsigned)raw << 16); }
};
typedef __nv_bfloat16 nv_bfloat16;
SPG_SMALL_FLOAT(__nv_bfloat16)
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
