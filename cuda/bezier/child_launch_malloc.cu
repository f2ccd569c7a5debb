// child_launch_malloc.cu: a child grid for every curve, into memory that the device allocates for just that curve.
//
// Layout   control float2 [curves][3], see curve.cuh; count int [curves]; address float2* [curves]: where the points of
//          each curve are, on the heap of the device, null where it had no room; children: what was launched and
//          allocated, see children.cuh.
// Mapping  As child_launch_preallocated.cu; each thread first calls malloc.
// Bounds   Pending launches as there. The heap must hold all vertices; the host cannot copy or free what malloc gave:
//          collect.cu brings it out, free_curves gives it back.
// Wins     Memory for the points that there are, without a second launch.
// Loses    Allocations of all threads take turns at one heap.
// Idea     NVIDIA's sample cdpBezierTessellation; written anew.
#include "child.cuh"

SPG_KERNEL launch_curves(int first, int last, const float2* __restrict__ control, int* __restrict__ count,
                         float2** __restrict__ address, unsigned long long* children)
{
    const int curve = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (curve >= last) return;
    const int n = points_needed(load_curve(control, curve));
    float2* vertices = (float2*)allocate(n * sizeof(float2), children);
    count[curve] = n;
    address[curve] = vertices;
    if (!vertices) return;
    SPG_LAUNCH(write_curve, 1, threads_for(n), 0, cudaStreamFireAndForget)(control, curve, n, vertices);
    count_child(children);
}

SPG_KERNEL free_curves(int curves, float2** __restrict__ address)
{
    const int curve = blockIdx.x * blockDim.x + threadIdx.x;
    if (curve >= curves) return;
    free(address[curve]);  // of null, nothing
    address[curve] = nullptr;
}
