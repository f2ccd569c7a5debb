// uniform.cu: every curve gets 256 points, whether it needs them or not.
//
// Layout   control float2 [curves][3], see curve.cuh; vertices float2 [curves][256].
// Mapping  A block of 256 per curve, a thread per point; blocks go on over the curves, four in flight. Nothing
//          depends on the data: no counting, no allocation, no imbalance.
// Wins     Where all curves are bent, or where 256 points each are wanted anyway.
// Loses    On straight curves: 2,048 bytes written where 64 would do. The bytes written are its floor.
//          Here to be beaten by the adaptive variants.
// Idea     The plainest tessellation: equal steps of the parameter, as many for every curve.
#include "curve.cuh"

#define SPG_AT_ONCE 4

SPG_KERNEL uniform(int curves, const float2* __restrict__ control, float2* __restrict__ vertices)
{
    for (long long base = (long long)blockIdx.x * SPG_AT_ONCE; base < curves;
         base += (long long)gridDim.x * SPG_AT_ONCE) {
        curve_t curve[SPG_AT_ONCE];
#pragma unroll
        for (int k = 0; k < SPG_AT_ONCE; ++k) curve[k] = load_curve(control, (int)min(base + k, curves - 1ll));
#pragma unroll
        for (int k = 0; k < SPG_AT_ONCE; ++k)
            if (base + k < curves)
                vertices[(base + k) * SPG_MOST_POINTS + threadIdx.x] =
                    curve_point(curve[k], threadIdx.x, SPG_MOST_POINTS);
    }
}
