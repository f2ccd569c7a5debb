// teams.cuh: parts of a block that wait for each other alone.
#pragma once
#include "spg.cuh"

// A barrier for whole warps of a block, `threads` in all; `team`, 0 to 14, tells it from others of that block.
__device__ __forceinline__ void team_barrier(int team, int threads)
{
#ifdef SPG_HOST
    spg_named_barrier(team + 1, threads, SPG_HERE);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(threads) : "memory");
#endif
}
