// host_driven.cu: a launch per level; the host reads how many cells the next one has.
//
// Layout   front double [fronts][5], see field.cuh; queue, queued, cells and cell_count, see level.cuh.
// Mapping  One launch per level, a warp per cell (level.cuh).
// Wins     Code without barriers and bounds: each launch is as large as its level.
// Loses    A wait and a transfer of four bytes per level.
// Idea     The plain way, breadth first, as a search that a host drives (bfs/frontier.cu).
#include "level.cuh"

SPG_KERNEL refine_cells(int fronts, const double* __restrict__ front, double tolerance, int depth,
                        const unsigned* __restrict__ in, int count, unsigned* __restrict__ out, int* out_count,
                        unsigned* __restrict__ cells, int* cell_count)
{
    refine_level({fronts, front, tolerance, depth}, in, count, out, out_count, cells, cell_count);
}

// The first level: the cells above the coarsest ones.
SPG_KERNEL begin(unsigned* queue, int* queued, int* cell_count)
{
    const int cells = 1 << 2 * (SPG_BASE - 1);
    for (int i = threadIdx.x; i < cells; i += blockDim.x) queue[i] = cells + i;
    if (threadIdx.x == 0) {
        *queued = cells;
        *cell_count = 0;
    }
}
