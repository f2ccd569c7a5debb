// Accesses whose sectors, lanes, banks and atomics are known.
#include "../../cuda/common/spg.cuh"

SPG_KERNEL strided(int stride, const float* __restrict__ x, float* __restrict__ y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}

SPG_KERNEL four_at_once(const float* __restrict__ x, float* __restrict__ y)
{
    const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];
    y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

SPG_KERNEL triangle(const float* __restrict__ x, float* __restrict__ y)
{
    float sum = 0;
    for (unsigned i = 0; i < threadIdx.x; ++i) sum += x[i];
    y[threadIdx.x] = sum;
}

SPG_KERNEL banks(int stride, float* y)
{
    SPG_SHARED(float, tile, 33 * 32);
    for (int i = threadIdx.x; i < 33 * 32; i += 32) tile[i] = (float)i;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x * stride];
}

SPG_KERNEL crowd(int places, int* count) { atomicAdd(count + threadIdx.x % places, 1); }
