// pull-naive: PageRank; a thread per vertex adds up what its in-edges bring.
//
// Layout   see power.cuh; in_ptr, in, x0, x1 and chance as in pull.cu.
// Mapping  thread v, v + threads, ... walks through in-edges in_ptr[v] to in_ptr[v + 1] - 1, one after the other. The
//          sum is double: a hub's hundred thousand floats, added one after the other, would lose three digits.
// Wins     on graphs of few and equal in-edges (grids).
// Loses    on hubs, whose thread keeps all others waiting at the barrier; and neighbouring threads read edges that are
//          a row apart.
// Idea     the plainest form of the power iteration by in-edges.
#include "../common/spg.cuh"
#include "power.cuh"

SPG_KERNEL __launch_bounds__(1024)
    pagerank_pull_naive(POWER_PARAMETERS, const offset_t* __restrict__ in_ptr, const index_t* __restrict__ in,
                        value_t* x0, value_t* x1, const value_t* __restrict__ chance)
{
    power_iteration p = POWER_ITERATION;
    const long long threads = (long long)gridDim.x * blockDim.x;
    p.begin(x0, nullptr);
    for (int k = 0;; ++k) {
        const value_t* x = k % 2 ? x1 : x0;
        value_t* next = k % 2 ? x0 : x1;
        for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads) {
            double sum = 0;
            for (offset_t e = in_ptr[v]; e < in_ptr[v + 1]; ++e) sum += (double)along(x[in[e]], chance, e);
            const value_t part = share[v];
            next[v] = p.renew((index_t)v, (value_t)sum, rank[v], part) * part;
        }
        if (p.settle(k)) break;
    }
}
