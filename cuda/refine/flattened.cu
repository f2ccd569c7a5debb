// flattened.cu: all levels in one cooperative launch, with queues that the kernel keeps itself.
//
// Layout   front double [fronts][5], see field.cuh; queue, queued, cells and cell_count, see level.cuh; barrier
//          unsigned [1], zero when it is made, see common/ordered.cuh.
// Mapping  As many blocks as the device holds together, a warp per cell (level.cuh); a barrier of the whole grid after
//          each level.
// Wins     A level costs a barrier instead of a launch, and no thread waits for the host.
// Loses    Needs a cooperative launch; the grid is as large in a level of 16 cells as in one of 100,000.
// Idea     Persistent threads: Gupta, Stuart and Owens, InPar 2012; Xiao and Feng's barriers, IPDPS 2010.
#include "level.cuh"
#include "../common/ordered.cuh"

SPG_KERNEL refine_all(int fronts, const double* __restrict__ front, double tolerance, int depth, unsigned* queue,
                      int capacity, int* queued, unsigned* cells, int* cell_count, unsigned* barrier)
{
    const field_t field = {fronts, front, tolerance, depth};
    const int coarse = 1 << 2 * (SPG_BASE - 1);
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < coarse; i += blockDim.x) queue[i] = coarse + i;
        if (threadIdx.x == 0) {
            queued[0] = coarse;
            queued[1] = 0;
            *cell_count = 0;
        }
    }
    grid_barrier(barrier);
    // Three counts in turn: level k is read, k + 1 is counted, k + 2 is cleared. So one barrier a level is enough.
    for (int k = 0;; ++k) {
        const int count = load_grid(queued + k % 3);
        if (count == 0) break;  // the same for all blocks
        if (blockIdx.x == 0 && threadIdx.x == 0) store_grid(queued + (k + 2) % 3, 0);
        refine_level(field, queue + (long long)(k & 1) * capacity, count, queue + (long long)(~k & 1) * capacity,
                     queued + (k + 1) % 3, cells, cell_count);
        grid_barrier(barrier);
    }
}
