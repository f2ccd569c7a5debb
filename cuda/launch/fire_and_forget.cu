// fire-and-forget, fire-and-forget-one: tasks launched from the device, which no thread waits for.
//
// Layout   result word64_t [2], see launch/task.cuh; children word64_t [6], see common/children.cuh.
// Mapping  fire-and-forget: a thread per task, blocks of 128, each launches one child grid; fire-and-forget-one: one
//          thread launches all. A child has a thread per item, blocks of 128.
// Wins     where threads find large tasks of unknown sizes: each child fills the GPU with its own shape.
// Loses    on small tasks: a launch costs about 0.3 us when many threads launch together, and 6 us for a thread that
//          launches one after another. All launches that wait need room in the pool: it is set from `tasks`.
// Idea     CUDA programming guide, "CUDA dynamic parallelism" (version 2, from CUDA 12 on).
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL child_task(int items, unsigned long long* result) { run_task(items, result); }

SPG_KERNEL fire_and_forget(int tasks, int items, int blocks, unsigned long long* children, unsigned long long* result)
{
    if ((int)(blockIdx.x * blockDim.x + threadIdx.x) >= tasks) return;
    SPG_LAUNCH(child_task, blocks, SPG_TASK_BLOCK, 0, cudaStreamFireAndForget)(items, result);
    count_child(children);
}

// One thread.
SPG_KERNEL fire_and_forget_one(int tasks, int items, int blocks, unsigned long long* children,
                               unsigned long long* result)
{
    for (int task = 0; task < tasks; ++task) {
        SPG_LAUNCH(child_task, blocks, SPG_TASK_BLOCK, 0, cudaStreamFireAndForget)(items, result);
        count_child(children);
    }
}
