// push: PageRank; every vertex adds what it gives to the vertices its out-edges lead to, by atomics.
//
// Layout   row_ptr offset_t [n + 1], col int32 [m]: targets of each vertex's out-edges; x, sums and chance as in
//          pull_naive.cu. sums is 0 before.
// Mapping  a warp per vertex, a lane per out-edge: one atomic per edge, no thread waits for its answer. The sums are
//          double: the order of the additions differs from run to run, and shows only in digits that a float does not
//          have. iterate.cu does the rest.
// Wins     only where in-edges are not available (a directed graph in CSR), against turning the graph for a few
//          iterations.
// Loses    to pull everywhere else: an atomic in L2 for each edge instead of a load, and hubs' sums are queued for.
// Idea     the scatter form of SpMV, y = A^T x; Besta and others, "To push or to pull", HPDC 2017.
#include "along.cuh"

SPG_KERNEL pagerank_push(index_t n, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                         const value_t* __restrict__ x, double* sums, const value_t* __restrict__ chance)
{
    const long long u = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (u >= n) return;
    const value_t give = x[u];
    for (long long e = row_ptr[u] + threadIdx.x % 32; e < row_ptr[u + 1]; e += 32)
        atomicAdd(sums + col[e], (double)along(give, chance, e));
}
