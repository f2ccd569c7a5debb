// spg.cuh: the few words that let one kernel source run on a GPU and, through cuda/host/, on any CPU.
//
// A kernel file includes this and nothing else of CUDA's. It is compiled once per value and offset type
// (-DSPG_VALUE=float|double, -DSPG_OFFSET=int|"long long"), so the kernels are plain code, not templates:
//   value_t   matrix and vector values          index_t   row and column indices (int32)
//   offset_t  positions in the nonzero arrays (row_ptr); 64-bit where a matrix has 2^31 nonzeros
// Kernels are extern "C", so that the host finds them by their name.
#pragma once

#ifdef SPG_HOST
#include "../host/spg_host.hpp"
#else

// A clock that runs on while threads wait, in nanoseconds.
__device__ __forceinline__ long long spg_nanoseconds()
{
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// A shared array:            SPG_SHARED(float, tile, 256);        then tile[i]
#define SPG_SHARED(type, name, count) __shared__ type name[count]
//   of two dimensions:       SPG_SHARED_2D(float, tile, 32, 33); then tile[i][j]
#define SPG_SHARED_2D(type, name, rows, columns) __shared__ type name[rows][columns]
//   a single variable:       SPG_SHARED_VAR(int, head);
#define SPG_SHARED_VAR(type, name) __shared__ type name
// The dynamic shared array:  SPG_DYNAMIC_SHARED(float, tile);     sized by the launch
#define SPG_DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
// A launch from the device:  SPG_LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments)
#define SPG_LAUNCH(kernel, grid, block, shared_bytes, stream) kernel<<<grid, block, shared_bytes, stream>>>

#define SPG_KERNEL extern "C" __global__ void
#endif

// All lanes of a warp, for votes and shuffles.
#define SPG_FULL_WARP 0xffffffffu

// Threads on an SM to leave registers for, for __launch_bounds__: `threads`, or the most that the SM can hold
// (compute capability 7.5: 1,024; 8.0, 9.0 and 10: 2,048; 8.6 to 8.9, 11 and 12: 1,536).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100)
#define SPG_RESIDENT(threads) (threads)
#elif __CUDA_ARCH__ < 800
#define SPG_RESIDENT(threads) ((threads) < 1024 ? (threads) : 1024)
#else
#define SPG_RESIDENT(threads) ((threads) < 1536 ? (threads) : 1536)
#endif

// Values and row offsets have the types that the host chooses with -D; a file compiled without has neither.
#ifdef SPG_VALUE
typedef SPG_VALUE value_t;
#endif
typedef int index_t;
#ifdef SPG_OFFSET
typedef SPG_OFFSET offset_t;
#endif
