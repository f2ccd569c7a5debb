// prefetch.cuh: asking for memory ahead of its use.
#pragma once
#include "spg.cuh"

#ifdef SPG_HOST
static inline void prefetch(const void*) {}
#else
// Bring a line of global memory into L2; no thread waits for it.
__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" : : "l"(p)); }
#endif
