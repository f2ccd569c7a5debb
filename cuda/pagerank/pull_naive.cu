// pull-naive: PageRank; a thread per vertex adds up what its in-edges bring.
//
// Layout   in_ptr offset_t [n + 1], in int32 [m]: in-edges; x value_t [n]: what each vertex gives along an edge, its
//          rank / its out-degree; sums double [n]. chance value_t [m]: with weights the edge's part of its source's.
// Mapping  thread v walks through in-edges in_ptr[v] to in_ptr[v + 1] - 1, one after the other. The sum is double: a
//          hub's hundred thousand floats, added one after the other, would lose three digits. iterate.cu does the rest.
// Wins     on graphs of few and equal in-edges (grids).
// Loses    on hubs, whose thread is the last of its launch; and neighbouring threads read edges that are a row apart.
// Idea     the plainest form of the power iteration by in-edges.
#include "along.cuh"

SPG_KERNEL pagerank_pull_naive(index_t n, const offset_t* __restrict__ in_ptr, const index_t* __restrict__ in,
                               const value_t* __restrict__ x, double* __restrict__ sums,
                               const value_t* __restrict__ chance)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    double sum = 0;
    for (long long e = in_ptr[v]; e < in_ptr[v + 1]; ++e) sum += (double)along(x[in[e]], chance, e);
    sums[v] = sum;
}
