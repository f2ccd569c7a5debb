// stamps.cuh: what a kernel tells of its steps, for whoever watches it.
//
// Layout   stamps int64 [size][2]: a time in ns and a code for each step; the kernel is given size 0 where nobody
//          watches.
#pragma once

// For one thread of the grid.
__device__ __forceinline__ void stamp(long long* stamps, int size, long long step, long long code)
{
    if (step >= size) return;
    stamps[2 * step] = spg_nanoseconds();
    stamps[2 * step + 1] = code;
}
