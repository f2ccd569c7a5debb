// host_driven.cu: the device counts, the host reads the counts, makes room and launches again.
//
// Layout   control float2 [curves][3], see curve.cuh; count int [curves] from `count_points`; the host reads it, sums
//          it up to start long long [curves], takes memory for exactly that many vertices, and launches `write_points`:
//          vertices float2 [total].
// Mapping  count_points: a thread per curve. write_points: a warp per curve, a lane per point, 32 points at a time;
//          a curve of 8 points leaves 24 lanes idle.
// Wins     Memory is known exactly, and the code is plain.
// Loses    The GPU waits while counts go to the host and offsets come back; allocating costs as much as the work.
// Idea     The plain two passes where it is not known how much will be written: count, make room, write.
#include "curve.cuh"

SPG_KERNEL count_points(int curves, const float2* __restrict__ control, int* __restrict__ count)
{
    const int curve = blockIdx.x * blockDim.x + threadIdx.x;
    if (curve < curves) count[curve] = points_needed(load_curve(control, curve));
}

SPG_KERNEL write_points(int curves, const float2* __restrict__ control, const int* __restrict__ count,
                        const long long* __restrict__ start, float2* __restrict__ vertices)
{
    const int lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const int curve = blockIdx.x * warps + threadIdx.x / 32;
    if (curve >= curves) return;
    const curve_t c = load_curve(control, curve);
    const int n = count[curve];
    for (int j = lane; j < n; j += 32) vertices[start[curve] + j] = curve_point(c, j, n);
}
