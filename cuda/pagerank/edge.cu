// edge: PageRank; every edge adds what its source gives to its target, by an atomic.
//
// Layout   row, col int32 [m]: source and target of each edge, sorted by source; x, sums and chance as in
//          pull_naive.cu. sums is 0 before.
// Mapping  a thread per edge: sources, targets and x are read in order, one atomic per edge. iterate.cu does the rest.
// Wins     over push on hubs with many out-edges: the same work for every thread, whatever the degrees.
// Loses    to pull: 8 bytes and an atomic per edge.
// Idea     edge-centric graph processing: Roy, Mihailovic and Zwaenepoel, "X-Stream", SOSP 2013.
#include "along.cuh"

SPG_KERNEL pagerank_edge(offset_t m, const index_t* __restrict__ row, const index_t* __restrict__ col,
                         const value_t* __restrict__ x, double* sums, const value_t* __restrict__ chance)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < m) atomicAdd(sums + col[e], (double)along(x[row[e]], chance, e));
}
