// one-block: a single block does one task after another, with a block barrier between them.
//
// Layout   result word64_t [2], see launch/task.cuh.
// Mapping  one block of 1024 threads (128 on the host device), a thread per item, further items in turn.
// Wins     where tasks are small and each needs the one before: some tens of nanoseconds between them.
// Loses    from a few thousand items on: one multiprocessor works, the others wait.
// Idea     persistent threads (Gupta, Stuart and Owens, InPar 2012), of one block.
#include "../common/spg.cuh"
#include "task.cuh"

SPG_KERNEL one_block_tasks(int tasks, int items, unsigned long long* result)
{
    for (int task = 0; task < tasks; ++task) {
        run_task(items, result);
        __syncthreads();
    }
}
