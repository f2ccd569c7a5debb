// nested: tasks launched from tasks, level below level: each task launches the next one as its child.
//
// Layout   result word64_t [2], see launch/task.cuh; children word64_t [6], see common/children.cuh.
// Mapping  a thread for each chain of `depth` tasks, blocks of 128, launches the first; the first thread of each task
//          launches the next, fire-and-forget, one level deeper. A task has a thread per item, blocks of 128.
// Wins     where work is found by work and needs nothing from its parent: a child may start while its parent runs.
// Loses    against fire-and-forget from one level: the launches of a chain come one after another, and no level is
//          complete before the last one is. What has to come after a task as a whole is a tail launch (tail.cu).
// Idea     recursion in textbooks on dynamic parallelism, which allowed 24 levels until CUDA 12.
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL nested_task(int left, int items, unsigned long long* children, unsigned long long* result)
{
    if (left > 1 && blockIdx.x == 0 && threadIdx.x == 0) {
        SPG_LAUNCH(nested_task, gridDim, SPG_TASK_BLOCK, 0, cudaStreamFireAndForget)(left - 1, items, children, result);
        count_child(children);
    }
    run_task(items, result);
}

SPG_KERNEL nested(int tasks, int items, int blocks, int depth, unsigned long long* children, unsigned long long* result)
{
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * depth;
    if (first >= tasks) return;
    const int left = (int)(tasks - first < depth ? tasks - first : depth);
    SPG_LAUNCH(nested_task, blocks, SPG_TASK_BLOCK, 0, cudaStreamFireAndForget)(left, items, children, result);
    count_child(children);
}
