// edge: PageRank; every edge adds what its source gives to its target, by an atomic.
//
// Layout   see power.cuh. row, col int32 [m]: source and target of each edge, sorted by source. x value_t [n]: what
//          each vertex gives along an edge. sums double [n]. chance value_t [m]: see power.cuh.
// Mapping  a thread per edge, every iteration: sources, targets and x are read in order, one atomic per edge. After a
//          grid barrier a thread per vertex takes the sum, as in push.cu.
// Wins     over push on hubs with many out-edges: the same work for every thread, whatever the degrees.
// Loses    to pull: 8 bytes and an atomic per edge.
// Idea     edge-centric graph processing: Roy, Mihailovic and Zwaenepoel, "X-Stream", SOSP 2013.
#include "../common/spg.cuh"
#include "power.cuh"

SPG_KERNEL __launch_bounds__(1024)
    pagerank_edge(POWER_PARAMETERS, offset_t m, const index_t* __restrict__ row, const index_t* __restrict__ col,
                  value_t* x, double* sums, const value_t* __restrict__ chance)
{
    power_iteration p = POWER_ITERATION;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    p.begin(x, sums);
    for (int k = 0;; ++k) {
        for (long long e = first; e < m; e += threads) atomicAdd(sums + col[e], (double)along(x[row[e]], chance, e));
        grid_barrier(barrier);
#pragma unroll 2  // with four, doubles of 1,024 threads would not fit into registers
        for (long long v = first; v < n; v += threads) {
            const value_t sum = (value_t)sums[v], part = share[v];
            sums[v] = 0;
            x[v] = p.renew((index_t)v, sum, rank[v], part) * part;
        }
        if (p.settle(k)) break;
    }
}
