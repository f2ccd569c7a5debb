// tail: a chain; each task launches the next, which runs when it has ended as a whole.
//
// Layout   result word64_t [2], see launch/task.cuh; children word64_t [6], see common/children.cuh.
// Mapping  a thread per item, blocks of 128; the first thread of the grid launches the next link.
// Wins     over a trip to the host: what comes next is decided where the result is.
// Loses    against grid-sync and graph-while: about 11 us for a link. It is the only way to wait for children, since a
//          parent cannot do so itself (cudaDeviceSynchronize on the device is gone from CUDA 12 on).
// Idea     CUDA programming guide, "CUDA dynamic parallelism", tail launches.
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL tail_task(int left, int items, unsigned long long* children, unsigned long long* result)
{
    run_task(items, result);
    if (left > 1 && blockIdx.x == 0 && threadIdx.x == 0) {
        SPG_LAUNCH(tail_task, gridDim, SPG_TASK_BLOCK, 0, cudaStreamTailLaunch)(left - 1, items, children, result);
        count_child(children);
    }
}
