// jds: y = A x, A in JDS (rows sorted by length), a thread per row.
//
// Layout   perm int32 [rows], slot_start offset_t [slots + 1], col int32 [nnz], val [nnz]: slot k holds entry k
//          of the rows perm[0 .. slot_start[k + 1] - slot_start[k]), one after another. x [cols], y [rows].
// Mapping  thread p takes row perm[p]; in step k neighbouring threads read neighbouring elements of slot k, as
//          in ELL, and without padding; y is scattered through perm.
// Wins     over ELL where rows differ: no padding, and a warp's rows are of about equal length.
// Loses    on hubs: row perm[0] is walked by one thread. Sorting also tears rows that share parts of x apart,
//          and the writes to y are scattered.
// Idea     Saad, "Krylov subspace methods on supercomputers", 1989.
#include "../common/spg.cuh"
#include "values.cuh"

SPG_KERNEL jds(index_t rows, index_t slots, const index_t* __restrict__ perm,
               const offset_t* __restrict__ slot_start, const index_t* __restrict__ col,
               values_t val, const value_t* __restrict__ x, value_t* __restrict__ y) {
    const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= rows) return;
    // The row's length is the number of slots wider than p; widths never rise, so bisection finds it. Knowing
    // it beforehand, the loop below has no condition to wait for and keeps several loads under way.
    index_t length = 0;
    for (index_t over = slots; length < over;) {
        const index_t k = length + (over - length) / 2;
        if (slot_start[k + 1] - slot_start[k] > p)
            length = k + 1;
        else
            over = k;
    }
    value_t sum = 0;
#pragma unroll 4
    for (index_t k = 0; k < length; ++k) {
        const offset_t e = slot_start[k] + (offset_t)p;
        sum += value_of(val, e) * x[col[e]];
    }
    y[perm[p]] = sum;
}
