// stamps.cuh: what a kernel reports of its steps, for a trace.
//
// Layout   stamps int64 [size][2]: a time in ns and a code for each step; the kernel gets size 0
//          without a trace.
#pragma once

// For one thread of the grid.
__device__ __forceinline__ void stamp(long long* stamps, int size, long long step, long long code)
{
    if (step >= size) return;
    stamps[2 * step] = spg_nanoseconds();
    stamps[2 * step + 1] = code;
}
