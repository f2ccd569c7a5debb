// default-stream: tasks launched from the device into stream 0, which is the launching block's own.
//
// Layout   result word64_t [2], see launch/task.cuh; children word64_t [6], see common/children.cuh.
// Mapping  a thread per task, blocks of 128, each launches one child; the children of a block run one after another,
//          those of different blocks side by side. A child has a thread per item, blocks of 128.
// Wins     where the tasks of a block must follow each other.
// Loses    against fire-and-forget where they need not: it is what texts from before CUDA 12 show, and an order that
//          is not needed costs time.
// Idea     CUDA programming guide, "CUDA dynamic parallelism".
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL stream_task(int items, unsigned long long* result) { run_task(items, result); }

SPG_KERNEL default_stream(int tasks, int items, int blocks, unsigned long long* children, unsigned long long* result)
{
    if ((int)(blockIdx.x * blockDim.x + threadIdx.x) >= tasks) return;
    SPG_LAUNCH(stream_task, blocks, SPG_TASK_BLOCK, 0, 0)(items, result);
    count_child(children);
}
