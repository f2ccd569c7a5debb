// A task for each thread, which takes memory on the device first and gives it back never or immediately; and tasks that
// are launched, of which none is counted.
#include "common/children.cuh"
#include "launch/task.cuh"

SPG_KERNEL allocating_tasks(int tasks, int items, int bytes, int keep, unsigned long long* children,
                            unsigned long long* result)
{
    const int task = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    unsigned long long sum = 0;
    if (task < tasks) {
        int* memory = (int*)allocate(bytes, children);
        if (memory) {
            memory[0] = items;
            atomicAdd(result, 1ull);
            sum = some_items(memory[0], 0, 1);
            if (!keep) free(memory);
        }
    }
    add_result(sum, result);
}

SPG_KERNEL one_task(int items, unsigned long long* result) { run_task(items, result); }

SPG_KERNEL uncounted_tasks(int tasks, int items, unsigned long long* result)
{
    for (int task = 0; task < tasks; ++task)
        SPG_LAUNCH(one_task, 1, SPG_TASK_BLOCK, 0, cudaStreamFireAndForget)(items, result);
}
