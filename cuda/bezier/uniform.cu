// uniform.cu: every curve gets 256 points, whether it needs them or not.
//
// Computes   vertices float2 [curves][256] from control (see curve.cuh). What the adaptive variants are measured against.
// Threads    A block of 256 per curve, a thread per point; blocks go on over the curves. Nothing depends on the data:
//            no counting, no allocation, no imbalance.
// Wins       Where all curves are bent, or where 256 points each are wanted anyway.
// Loses      On straight curves: 2,048 bytes written where 64 would do. The bytes written are its floor.
#include "curve.cuh"

SPG_KERNEL uniform(int curves, const float2* __restrict__ control, float2* __restrict__ vertices)
{
    for (int curve = blockIdx.x; curve < curves; curve += gridDim.x)
        vertices[(long long)curve * SPG_MOST_POINTS + threadIdx.x] =
            curve_point(load_curve(control, curve), threadIdx.x, SPG_MOST_POINTS);
}
