// collect.cu: brings the points of chosen curves together, so that the host can check them. Not timed.
//
// Layout   out float2: the points of curve id[k] from out[place[k]] on, for k < chosen. They are either at
//          address[curve] (vertices from malloc on the device, which the host cannot copy), or from
//          vertices[start[curve]] on where `address` is null.
// Mapping  A warp per chosen curve.
#include "../common/spg.cuh"

SPG_KERNEL collect(int chosen, const int* __restrict__ id, const long long* __restrict__ place,
                   const int* __restrict__ count, float2* const* __restrict__ address,
                   const long long* __restrict__ start, const float2* __restrict__ vertices, float2* __restrict__ out)
{
    const int lane = threadIdx.x & 31, k = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (k >= chosen) return;
    const int curve = id[k];
    const float2* from = address ? address[curve] : vertices + start[curve];
    if (!from) return;
    for (int j = lane; j < count[curve]; j += 32) out[place[k] + j] = from[j];
}
