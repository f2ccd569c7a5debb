// lists.cuh: a warp walks the lists of its lanes together.
#pragma once

#include "../common/warp.cuh"

// Calls visit(active, owner, position) for all positions from `e` to `end` of all lanes, 32 at a time, all lanes
// together: `position` is in the list of lane `owner`. However uneven the lists are, all lanes have the same work.
// `active` is false beyond the last one (`owner` is then some lane, `position` of no use). All 32 lanes come together.
template <class Visit>
__device__ __forceinline__ void walk_lists(offset_t e, offset_t end, Visit visit)
{
    const int lane = threadIdx.x & 31;
    const long long upto = warp_inclusive_sum(end > e ? (long long)(end - e) : 0);  // of this lane and those before it
    const long long all = __shfl_sync(SPG_FULL_WARP, upto, 31);
    const long long base = (long long)end - upto;  // this lane's list has position base + i for the i-th of all
    for (long long step = 0; step < all; step += 32) {
        const long long i = step + lane;
        int owner = 0;  // the first lane whose upto is beyond i
        for (int half = 16; half > 0; half /= 2)
            if (__shfl_sync(SPG_FULL_WARP, upto, owner + half - 1) <= i) owner += half;
        const long long from = __shfl_sync(SPG_FULL_WARP, base, owner);
        visit(i < all, owner, (offset_t)(from + i));
    }
}
