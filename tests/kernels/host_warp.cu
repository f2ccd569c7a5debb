// Warp collectives, each result written per thread; one warp or more.
#include "common/spg.cuh"

// out[k * blockDim.x + t], k = 0..5
SPG_KERNEL shuffles(const value_t* x, int width, value_t* out)
{
    const int t = threadIdx.x, n = blockDim.x;
    const value_t v = x[t];
    out[t] = __shfl_sync(0xffffffffu, v, 5, width);
    out[n + t] = __shfl_sync(0xffffffffu, v, t + 3, width);
    out[2 * n + t] = __shfl_up_sync(0xffffffffu, v, 3, width);
    out[3 * n + t] = __shfl_down_sync(0xffffffffu, v, 3, width);
    out[4 * n + t] = __shfl_xor_sync(0xffffffffu, v, 1, width);
    out[5 * n + t] = __shfl_xor_sync(0xffffffffu, v, 9, width);
}

SPG_KERNEL shuffle_types(unsigned* bad)
{
    const int t = threadIdx.x, next = (t + 1) % 32;
    const unsigned all = 0xffffffffu;
    unsigned wrong = 0;
    wrong |= (__shfl_sync(all, -t, next) != -next) << 0;
    wrong |= (__shfl_sync(all, (unsigned)t + 4000000000u, next) != (unsigned)next + 4000000000u) << 1;
    wrong |= (__shfl_sync(all, -(1ll << 40) * t, next) != -(1ll << 40) * next) << 2;
    wrong |= (__shfl_sync(all, (1ull << 63) + t, next) != (1ull << 63) + next) << 3;
    wrong |= (__shfl_sync(all, 0.5f * t, next) != 0.5f * next) << 4;
    wrong |= (__shfl_sync(all, 1e200 * t, next) != 1e200 * next) << 5;
    wrong |= (__shfl_sync(all, (long)t, next) != (long)next) << 6;
    bad[t] = wrong;
}

// out[k * 32 + t]
SPG_KERNEL votes(const int* x, unsigned* out)
{
    const int t = threadIdx.x;
    const unsigned all = 0xffffffffu;
    out[t] = __ballot_sync(all, x[t] > 3);
    out[32 + t] = __any_sync(all, x[t] == 7) * 2 + __any_sync(all, x[t] == 1000);
    out[64 + t] = __all_sync(all, x[t] >= 0) * 2 + __all_sync(all, x[t] == 7);
    out[96 + t] = __match_any_sync(all, x[t]);
    int same;
    const unsigned matched = __match_all_sync(all, 5.0, &same);
    out[128 + t] = matched;
    int differ;
    const unsigned unmatched = __match_all_sync(all, x[t], &differ);
    out[160 + t] = same + 2 * (unmatched == 0 && !differ);
    out[192 + t] = (unsigned)__reduce_add_sync(all, x[t]);
    out[224 + t] = (unsigned)__reduce_min_sync(all, -x[t]);
    out[256 + t] = __reduce_max_sync(all, (unsigned)x[t]);
    out[288 + t] = __reduce_xor_sync(all, (unsigned)x[t]);
    out[320 + t] = __reduce_or_sync(all, (unsigned)x[t]) + 1000 * __reduce_and_sync(all, (unsigned)x[t]);
}

// Halves of a warp meet apart, then together: masks that overlap may be open together.
SPG_KERNEL halves(unsigned* out)
{
    const int t = threadIdx.x;
    unsigned sum = 0;
    if (t < 16) sum = __reduce_add_sync(0x0000ffffu, (unsigned)t);
    else if (t < 24) sum = __ballot_sync(0x00ff0000u, t & 1);
    __syncwarp();
    out[t] = sum + 1000 * __reduce_add_sync(0xffffffffu, 1u);
}

// Lanes that returned do not hold the others; a warp may have fewer than 32 threads.
SPG_KERNEL leaving(unsigned* out)
{
    const int t = threadIdx.x;
    if (t % 3 == 0) return;
    out[t] = __ballot_sync(0xffffffffu, 1);
}

// Warp-aggregated counting: the same whichever lanes count as converged.
SPG_KERNEL aggregated(index_t n, const int* x, int* count)
{
    const index_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        const unsigned active = __activemask();
        if ((threadIdx.x & 31) == __ffs(active) - 1) atomicAdd(count, __popc(active));
    }
}

// Reads a lane that takes no part.
SPG_KERNEL absent_lane(unsigned* out)
{
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, 1u, 20);
}

SPG_KERNEL bit_tricks(unsigned x, unsigned long long y, unsigned* out)
{
    out[0] = __popc(x);
    out[1] = __popcll(y);
    out[2] = __ffs(x);
    out[3] = __clz(x);
    out[4] = __clzll(y);
    out[5] = __brev(x);
    out[6] = __clz(0) + __ffs(0) + __clzll(0);
    out[7] = __umulhi(x, 3000000000u);
    out[8] = __byte_perm(0x33221100u, 0x77665544u, 0x7531u);
    out[9] = __funnelshift_l(0x80000001u, 0x00000003u, 4);
    out[10] = min(3, 4u) + max(2ll, 9ull) + (unsigned)max(1.5f, 2.0) + (unsigned)min(7.0f, 8.0f);
    out[11] = __float_as_uint(-2.0f) + (unsigned)__double_as_longlong(1.0 + 0x1p-52);
}
