// coo-segmented: y += A x, A in COO sorted by row, warp-segmented sums, one atomic per row and warp.
//
// Layout   row, col int32 [nnz], val [nnz], row never falling; x [cols], y [rows], zeroed before the launch
//          (that is part of the work, and of the timed run).
// Mapping  a warp takes 32 * steps consecutive entries, a lane per entry and step; see segmented_sum.cuh.
// Wins     where rows are of very different lengths: every warp has the same work whatever the rows are like,
//          and a hub costs an atomic per 32 * steps entries.
// Loses    against CSR kernels on even rows: 4 more bytes per nonzero for the row, and ten shuffles per step.
// Idea     the segmented reduction of Bell and Garland, SC 2009; Blelloch's segmented scans.
#include "../common/spg.cuh"
#include "segmented_sum.cuh"

SPG_KERNEL SPG_SEGMENTED_BOUNDS coo_segmented(offset_t nnz, int steps, const index_t* __restrict__ row,
                                              const index_t* __restrict__ col, values_t val,
                                              const value_t* __restrict__ x, value_t* y)
{
    const long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const long long first = warp * 32 * steps;
    if (first < nnz) segmented_sum(nnz, first, steps, row, col, val, x, y);  // a warp goes or stays as a whole
}
