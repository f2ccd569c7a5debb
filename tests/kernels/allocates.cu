// A task for each thread, which takes memory on the device first and gives it back never or immediately.
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
