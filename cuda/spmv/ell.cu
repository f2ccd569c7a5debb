// ell: y = A x, A in ELL, a thread per row.
//
// Layout   col [slots][rows] int32, val [slots][rows]: slot k of row i is element k * rows + i; a row's entries
//          fill its first slots, the others have column -1. x [cols], y [rows].
// Mapping  thread i takes row i. In step k neighbouring threads read neighbouring elements of slot k, so every
//          read of col and val is coalesced, without any cooperation between threads.
// Wins     where all rows are about equally long: stencils, meshes, bands. No row pointers, no shuffles.
// Loses    where they are not: slots is the longest row, and one hub makes every row pay for it in memory.
// Idea     ELLPACK; on GPUs: Bell and Garland, "Implementing sparse matrix-vector multiplication on
//          throughput-oriented processors", SC 2009.
#include "../common/spg.cuh"
#include "ell_row.cuh"

SPG_KERNEL SPG_ROW_BOUNDS(sizeof(value_t) == 8)
    ell(index_t rows, index_t slots, const index_t* __restrict__ col, values_t val, const value_t* __restrict__ x,
        value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = ell_row<sizeof(value_t) == 8>(row, (long long)slots * rows, rows, col, val, x);
}
