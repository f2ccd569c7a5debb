// graph-while: a CUDA graph with one WHILE node, whose body is the task.
//
// Layout   result word64_t [2], see launch/task.cuh; left int32 [1]: tasks to go.
// Mapping  a thread per item, blocks of 128; one thread counts down and sets the condition, which is looked at when the
//          whole node has ended.
// Wins     over host-readback wherever the device alone knows when to stop: no trip to the host.
// Loses    against grid-sync, which needs no launch at all, as long as one grid fits all rounds.
// Idea     conditional nodes, CUDA 12.4; CUDA programming guide, "CUDA graphs".
#include "../common/spg.cuh"
#include "task.cuh"

SPG_KERNEL while_begin(int tasks, int* left) { *left = tasks; }

SPG_KERNEL while_task(int items, int* left, unsigned long long more, unsigned long long* result)
{
    run_task(items, result);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const int rest = *left - 1;
        *left = rest;
#ifndef SPG_HOST
        cudaGraphSetConditional(more, rest > 0);
#else
        (void)more;
#endif
    }
}
