// scatter: y = A^T x from CSR, or y = A x from CSC: each line of the matrix is scattered over y.
//
// Layout   ptr offset_t [lines + 1], index int32 [nnz], val [nnz]: the rows of CSR or the columns of CSC; x [lines],
//          y [other dimension], all 0 before (zeroing it is part of the timed run).
// Mapping  SPG_THREADS (2, 4, 8, 16 or 32) threads per line, by mean length; the line's element of x is read once,
//          each product is added to y by an atomic.
// Wins     nowhere where the other orientation can be had: it is what there is without transposing first.
// Loses    by its atomics: each is a read-modify-write of 32 bytes in L2 for 4 or 8, and popular places of y
//          are served one after another.
// Idea     the push direction of graph computing, as in Beamer, Asanovic and Patterson, IPDPS 2017.
#include "../common/spg.cuh"

#ifndef SPG_THREADS
#error "the host function defines SPG_THREADS"
#endif

SPG_KERNEL scatter(index_t lines, const offset_t* __restrict__ ptr, const index_t* __restrict__ index,
                   const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* y)
{
    const long long line = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_THREADS;
    if (line >= lines) return;
    const value_t factor = x[line];
    const long long end = ptr[line + 1];
    for (long long k = ptr[line] + threadIdx.x % SPG_THREADS; k < end; k += SPG_THREADS)
        atomicAdd(y + index[k], val[k] * factor);
}
