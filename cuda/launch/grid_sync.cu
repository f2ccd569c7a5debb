// grid-sync: one cooperative launch; the grid does one task after another with a barrier between them.
//
// Layout   result word64_t [2], see launch/task.cuh; barrier unsigned [1], see common/ordered.cuh.
// Mapping  a block of 128 threads for each multiprocessor, all resident; a thread per item, further items in turn.
// Wins     over any launch, from the host or the device: 1 us between dependent tasks.
// Loses    its grid has one size for all tasks, and every register and byte of shared memory that the largest needs.
// Idea     CUDA programming guide, "Grid synchronization".
#include "../common/spg.cuh"
#include "../common/ordered.cuh"
#include "task.cuh"

SPG_KERNEL grid_sync_tasks(int tasks, int items, unsigned* barrier, unsigned long long* result)
{
    for (int task = 0; task < tasks; ++task) {
        run_task(items, result);
        grid_barrier(barrier);
    }
}
