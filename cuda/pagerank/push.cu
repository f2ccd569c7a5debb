// push: PageRank; every vertex adds what it gives to the vertices its out-edges lead to, by atomics.
//
// Layout   see power.cuh. row_ptr offset_t [n + 1], col int32 [m]: targets of each vertex's out-edges. sums double [n].
//          chance value_t [m]: see power.cuh.
// Mapping  a warp per vertex, a lane per out-edge: one atomic per edge, no thread waits for its answer. After a grid
//          barrier a thread per vertex takes the sum, and sets it to 0 for the next iteration; a second barrier ends
//          it. The sums are double: the order of the additions differs from run to run, and shows only in digits that a
//          float does not have.
// Wins     only where in-edges are not at hand (a directed graph in CSR), against turning the graph for a few
//          iterations.
// Loses    to pull everywhere else: an atomic in L2 for each edge instead of a load, and hubs' sums are queued for.
// Idea     the scatter form of SpMV, y = A^T x; Besta and others, "To push or to pull", HPDC 2017.
#include "../common/spg.cuh"
#include "power.cuh"

SPG_KERNEL __launch_bounds__(1024)
    pagerank_push(POWER_PARAMETERS, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col, double* sums,
                  const value_t* __restrict__ chance)
{
    power_iteration p = POWER_ITERATION;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    p.begin(nullptr, sums);
    for (int k = 0;; ++k) {
        for (long long u = first / 32; u < n; u += threads / 32) {
            const value_t give = rank[u] * share[u];
            for (long long e = row_ptr[u] + threadIdx.x % 32; e < row_ptr[u + 1]; e += 32)
                atomicAdd(sums + col[e], (double)along(give, chance, e));
        }
        grid_barrier(barrier);
        for (long long v = first; v < n; v += threads) {
            const value_t sum = (value_t)sums[v];
            sums[v] = 0;
            p.renew((index_t)v, sum, rank[v], share[v]);
        }
        if (p.settle(k)) break;
    }
}
