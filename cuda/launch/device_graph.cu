// device-graph: a CUDA graph that launches itself again from the device, until no task is left.
//
// Layout   result word64_t [2], see launch/task.cuh; left int32 [1]: tasks to go; children word64_t [6], see
//          common/children.cuh: launches of the graph from the device.
// Mapping  a graph of one kernel, a thread per item, blocks of 128; the first thread counts down and launches the graph
//          once more as its tail. Only one such launch may wait at a time.
// Wins     over tail where what is launched again is a graph of several nodes.
// Loses    against graph-while, which decides the same without a launch.
// Idea     CUDA programming guide, "CUDA graphs", device graph launch (CUDA 12.0). Graphs exist on a GPU only.
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL graph_begin(int tasks, int* left) { *left = tasks; }

SPG_KERNEL graph_task(int items, int* left, unsigned long long* children, unsigned long long* result)
{
    run_task(items, result);
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const int rest = *left - 1;
    *left = rest;
#ifndef SPG_HOST
    if (rest > 0 && cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch) == cudaSuccess)
        atomicAdd(children + SPG_LAUNCHED, 1ull);
    else if (rest > 0)
        atomicAdd(children + SPG_FAILED, 1ull);
#else
    (void)children;
#endif
}
