// Kernels with the errors that the host device must report.
#include "common/spg.cuh"

SPG_KERNEL beyond(const int* x, int n, int* y) { y[threadIdx.x] = x[(int)threadIdx.x + n]; }  // line 4

SPG_KERNEL beyond_shared(int at, int* y)
{
    SPG_SHARED(int, part, 32);
    part[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x + at];  // line 11
}

SPG_KERNEL beyond_dynamic(int at, int* y)
{
    SPG_DYNAMIC_SHARED(int, part);
    part[threadIdx.x + at] = 1;  // line 17
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}

SPG_KERNEL early_return(int n, int* y)
{
    if ((int)threadIdx.x >= n) return;
    y[threadIdx.x] = 1;
    __syncthreads();  // line 26
}

SPG_KERNEL two_barriers(int* y)
{
    if (threadIdx.x < 16) __syncthreads();  // line 31
    else __syncthreads();  // line 32
    y[threadIdx.x] = 1;
}

SPG_KERNEL barrier_in_branch(int* y)
{
    if (threadIdx.x < 20) __syncthreads();  // line 38
    else y[threadIdx.x] = (int)__shfl_sync(0xffffffffu, 1u, 0);  // line 39
}

SPG_KERNEL foreign_mask(unsigned* y) { y[threadIdx.x] = __ballot_sync(0xffffu, 1); }

SPG_KERNEL mixed_collectives(unsigned* y)
{
    if (threadIdx.x < 16) y[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    else y[threadIdx.x] = __any_sync(0xffffffffu, 1);
}

SPG_KERNEL wild(int* y, long long offset) { y[offset] = 1; }  // line 50

SPG_KERNEL divide(int a, int b, int* y) { y[0] = a / b; }  // line 52

__device__ __noinline__ int frames(int n)
{
    volatile int frame[1024];
    frame[n % 1024] = n > 0 ? frames(n - 1) + 1 : 0;
    return frame[n % 1024];
}
SPG_KERNEL deep(int n, int* y) { y[0] = frames(n); }

SPG_KERNEL trapped(int* y)
{
    y[0] = 1;
    __trap();  // line 65
}

SPG_KERNEL misaligned(const float* x, float* y) { *y = ((const float4*)(x + 1))->x; }  // line 68

#ifdef SPG_HOST  // ptxas refuses it by itself
SPG_KERNEL much_shared(int* y)
{
    SPG_SHARED(int, part, 16000);
    part[threadIdx.x] = 1;
    y[0] = part[threadIdx.x];
}
#endif
