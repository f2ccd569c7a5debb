// child_launch_preallocated.cu: a child grid for every curve, as large as the curve needs; memory for the worst case.
//
// Layout   control float2 [curves][3], see curve.cuh; count int [curves]; vertices float2 [curves][256], of which the
//          first count[i] of curve i are written; children: what was launched, see children.cuh.
// Mapping  A thread per curve counts its points and launches a block of as many threads, fire-and-forget.
// Bounds   As many children are pending together as one launch has curves: the host launches `launch_curves` for
//          stretches of curves, each of which waits for the children of the one before.
// Wins     Against `uniform` where points are dear and few: what is not needed is not computed.
// Loses    A launch costs as much as writing thousands of points. Memory is that of `uniform`.
// Idea     NVIDIA's sample cdpBezierTessellation, there with malloc on the device; written anew.
#include "child.cuh"

SPG_KERNEL launch_curves(int first, int last, const float2* __restrict__ control, int* __restrict__ count,
                         float2* __restrict__ vertices, unsigned long long* children)
{
    const int curve = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (curve >= last) return;
    const int n = points_needed(load_curve(control, curve));
    count[curve] = n;
    SPG_LAUNCH(write_curve, 1, threads_for(n), 0, cudaStreamFireAndForget)
    (control, curve, n, vertices + (long long)curve * SPG_MOST_POINTS);
    count_child(children);
}
