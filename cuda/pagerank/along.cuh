// along.cuh: what passes along an edge.
#pragma once
#include "../common/spg.cuh"

// What `give` brings along edge e.
__device__ __forceinline__ value_t along(value_t give, const value_t* __restrict__ chance, long long e)
{
#ifdef SPG_WEIGHTED
    return give * chance[e];
#else
    (void)chance;
    (void)e;
    return give;
#endif
}
