// coo-atomic: y += A x, A in COO, a thread per nonzero.
//
// Layout   row, col int32 [nnz], val [nnz], in any order; x [cols], y [rows], zeroed before the launch (that is
//          part of the work, and of the timed run).
// Mapping  thread e multiplies entry e and adds the product to y[row[e]] atomically.
// Wins     where the matrix has just been assembled and will be used once: no order is needed, no preparation.
// Loses    on popular rows: atomics on one address are carried out one after another. Sums come in an order
//          that changes from run to run, so the last bits do too.
// Idea     the plainest parallel SpMV there is. Double precision atomics need compute capability 6.0.
#include "../common/spg.cuh"

SPG_KERNEL coo_atomic(offset_t nnz, const index_t* __restrict__ row, const index_t* __restrict__ col,
                      const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* y)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < nnz) atomicAdd(y + row[e], val[e] * x[col[e]]);
}
