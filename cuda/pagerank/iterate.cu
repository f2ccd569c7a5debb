// iterate: what an iteration of PageRank does after adding up, for the modes whose own kernel does that alone.
//
// Layout   see power.cuh; x value_t [n]: what each vertex gives along an edge; sums double [n]: what its in-edges
//          bring. The host clears totals before power_begin, and reads the change of iteration k from
//          totals[2 (k % 3)].
// Mapping  a thread per vertex. The host launches power_begin, then for each iteration the mode's kernel, which adds to
//          sums, and power_renew; after the last one power_end, where the graph was renumbered.
// Loses    to one launch for all iterations (pull.cu): the host waits for the change of each.
// Idea     the power iteration as written down in every textbook.
#include "power.cuh"

SPG_KERNEL power_begin(POWER_PARAMETERS, value_t* x, double* sums)
{
    power_iteration p = POWER_ITERATION;
    p.enter(x, sums);
}

// Ranks of iteration k from the sums, which are 0 again after it.
SPG_KERNEL power_renew(POWER_PARAMETERS, int k, value_t* x, double* sums)
{
    power_iteration p = POWER_ITERATION;
    p.change = p.loose = 0;
    p.share_out(totals[k == 0 ? 7 : 2 * ((k - 1) % 3) + 1]);
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) {
        const value_t sum = (value_t)sums[v], part = share[v];
        sums[v] = 0;
        x[v] = p.renew((index_t)v, sum, rank[v], part) * part;
    }
    p.add_up(2 * (k % 3));
    if (blockIdx.x == 0 && threadIdx.x < 2) totals[2 * ((k + 1) % 3) + threadIdx.x] = 0;
}

SPG_KERNEL power_end(POWER_PARAMETERS)
{
    power_iteration p = POWER_ITERATION;
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) out[v] = p.rank[new_id[v]];
}
