// ell-rows: y = A x, A in ELL stored row by row, a thread per row: ell in the other order, for contrast.
//
// Layout   row_col [rows][slots] int32, row_val [rows][slots]: slot k of row i is element i * slots + k; a row's
//          entries fill its first slots, the others have column -1. x [cols], y [rows].
// Mapping  thread i takes row i. In step k neighbouring threads read elements that are `slots` apart: with 8 slots or
//          more of float each lane of a warp reads a sector of its own, 32 where ell's reads take 4.
// Wins     nowhere: a row is together, which suits a CPU core, not a warp.
// Loses    against ell by the sectors that it reads several times, as far as L1 does not hold them until they are used.
//          Of ell, --param ahead=1 reads one slot after another as this one does.
// Idea     the contrast in Bell and Garland, "Efficient sparse matrix-vector multiplication on CUDA", 2008.
#include "../common/spg.cuh"

SPG_KERNEL ell_rows(index_t rows, index_t slots, const index_t* __restrict__ row_col,
                    const value_t* __restrict__ row_val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    value_t sum = 0;
    for (long long k = row * slots; k < (row + 1) * slots; ++k) {
        const index_t c = row_col[k];
        if (c < 0) break;  // padding comes last
        sum += row_val[k] * x[c];
    }
    y[row] = sum;
}
