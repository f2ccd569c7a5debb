// frontier: lengths of shortest paths by Bellman-Ford, relaxing only the edges of vertices whose length has fallen.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz], weight value_t [nnz] (null: all weigh `uniform`): out-edges;
//          limit: see graph/relax.cuh, as the rest. value_t is int or float; weights are not negative.
// Mapping  one launch per phase, the frontier's edges cut into equal parts over all warps. atomicMin lowers a length;
//          who lowers one queues the vertex, unless another thread has done so in this phase (atomicExch of the phase).
//          There is no threshold: nothing is ever far.
// Wins     where paths of few edges are the short ones: equal weights (then every vertex is relaxed once, as in a
//          breadth-first search), graphs of few levels.
// Loses    where lengths fall again and again before they are final: many edges are relaxed for nothing (near-far).
// Idea     Bellman 1958, Ford 1956; the queue of those that changed is Moore's (1959).
#include "../common/spg.cuh"
#include "begin.cuh"

SPG_KERNEL sssp_frontier(index_t n, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                         const value_t* __restrict__ weight, value_t uniform, int limit, value_t* dist, int* queued,
                         unsigned* in_far, index_t* queue, offset_t* start, index_t* far, word64_t* words, int* least,
                         int k)
{
    const weighted_graph g{n, row_ptr, col, weight, uniform, limit};
    const search_piles s{(int*)dist, queued, in_far, queue, start, far, words, least, n};
    if (blockIdx.x == 0 && threadIdx.x == 0) clear_tally(s, k);
    relax_phase(g, s, k, 0, 0x7fffffff);  // nothing is far
}
