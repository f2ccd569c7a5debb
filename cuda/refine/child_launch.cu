// child_launch.cu: every cell that is split launches those of its children that are split.
//
// Layout   front double [fronts][5], see field.cuh; cells unsigned [..], cell_count int [1] (zero before): the cells
//          that are not split, in no order; children: what was launched, see children.cuh.
// Mapping  A block of one warp per cell that is split; one fire-and-forget grid for those of its children that are.
//          `refine_coarse` starts it, a block for each of the cells above the coarsest ones.
// Bounds   A pending launch belongs to a cell above depth `depth - 1` that is split; no two of them are in each other.
//          So at most 4^(depth - 2) are pending together.
// Wins     No queues, no levels: a steep corner is refined to the end while the rest of the field has not begun.
// Loses    A cell is a microsecond of work, and a launch costs a good part of that.
// Idea     Recursion as the device runtime offers it: CUDA programming guide, "CUDA dynamic parallelism".
#include "../common/children.cuh"
#include "field.cuh"

struct refinement_t {
    field_t field;
    unsigned* cells;
    int* cell_count;
    unsigned long long* children;
};

SPG_KERNEL refine_group(refinement_t r, unsigned parent, unsigned group);

__device__ __forceinline__ void refine_cell(const refinement_t& r, unsigned cell)
{
    SPG_SHARED(double, values, 25);
    const unsigned split = children_to_split(r.field, cell, values);
    const int lane = threadIdx.x & 31;
    int at = 0;
    if (lane == 0 && split != 15) at = atomicAdd(r.cell_count, 4 - __popc(split));
    at = __shfl_sync(SPG_FULL_WARP, at, 0);
    if (lane < 4 && !(split >> lane & 1)) r.cells[at + __popc(~split & ((1u << lane) - 1))] = 4 * cell + lane;
    if (lane == 0 && split) {
        SPG_LAUNCH(refine_group, __popc(split), 32, 0, cudaStreamFireAndForget)(r, cell, split);
        count_child(r.children);
    }
}

SPG_KERNEL refine_group(refinement_t r, unsigned parent, unsigned group)
{
    for (unsigned skip = blockIdx.x; skip > 0; --skip) group &= group - 1;
    refine_cell(r, 4 * parent + __ffs((int)group) - 1);
}

SPG_KERNEL refine_coarse(int fronts, const double* front, double tolerance, int depth, unsigned* cells, int* cell_count,
                         unsigned long long* children)
{
    refine_cell({{fronts, front, tolerance, depth}, cells, cell_count, children},
                (1u << 2 * (SPG_BASE - 1)) + blockIdx.x);
}
