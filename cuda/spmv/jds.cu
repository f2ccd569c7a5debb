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

// Slots whose starts are loaded together, then their entries, then all of their x.
#define SPG_AHEAD 6

// The launch bounds leave registers for that: left alone ptxas settles for 32.
SPG_KERNEL __launch_bounds__(1024, 1)
    jds(index_t rows, index_t slots, const index_t* __restrict__ perm, const offset_t* __restrict__ slot_start,
        const index_t* __restrict__ col, values_t val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= rows) return;
    const index_t row = spg_gather(perm + p);  // asked for now, used at the end
    // The row's length is the number of slots wider than p; widths never rise, so bisection finds it. Knowing
    // it beforehand, the loop below has no condition to wait for and keeps several loads in flight.
    index_t length = 0;
    for (index_t over = slots; length < over;) {
        const index_t k = length + (over - length) / 2;
        if (spg_gather(slot_start + k + 1) - spg_gather(slot_start + k) > p)
            length = k + 1;
        else
            over = k;
    }
    value_t sum = 0;
#pragma unroll 1
    for (unsigned k = 0; k < (unsigned)length; k += SPG_AHEAD) {  // k may go beyond 2^31
        const unsigned left = (unsigned)length - k;
        offset_t start[SPG_AHEAD];
        index_t c[SPG_AHEAD];
        value_t v[SPG_AHEAD], factor[SPG_AHEAD];
#pragma unroll
        for (unsigned u = 0; u < SPG_AHEAD; ++u) start[u] = spg_gather_if(slot_start + k + u, u < left);
        // Not with spg_stream: slots begin anywhere, and what two warps share of a sector L1 had better keep.
#pragma unroll
        for (unsigned u = 0; u < SPG_AHEAD; ++u) c[u] = spg_gather_if(col + p + start[u], u < left);
#pragma unroll
        for (unsigned u = 0; u < SPG_AHEAD; ++u) v[u] = gather_value_if(val, p + start[u], u < left);
        if (c[0] < 0) break;  // never; but ptxas moves no load across a branch, so no value waits for a column
#pragma unroll
        for (unsigned u = 0; u < SPG_AHEAD; ++u) factor[u] = spg_gather_if(x + c[u], u < left);
#pragma unroll
        for (unsigned u = 0; u < SPG_AHEAD; ++u) sum += v[u] * factor[u];
    }
    y[row] = sum;
}
