// near-far: lengths of shortest paths by delta-stepping with two piles: what is near is relaxed, what is far waits.
//
// Layout   as in frontier.cu.
// Mapping  phases (sssp_relax) as long as the near pile holds anything, that is, anything below the threshold. Then the
//          threshold rises by delta, and sssp_split takes what has come near out of the far pile: a block takes 4
//          entries a thread at a time, and one atomic gives it room for all it keeps. The host reads the counts back
//          before every launch.
// Wins     on weights that differ: few edges are relaxed before their source's length is final.
// Loses    on equal weights (frontier does as much with fewer launches), and by many launches on long thin graphs
//          (auto).
// Idea     Meyer and Sanders, "Delta-stepping: a parallelizable shortest path algorithm", 2003; two piles instead of
//          buckets: Davidson, Baxter, Garland and Owens, IPDPS 2014. The bit that keeps a vertex from lying in the far
//          pile twice, so that it can never hold more than n, is spgraph's.
#include "../common/spg.cuh"
#include "begin.cuh"

SPG_KERNEL sssp_relax(index_t n, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                      const value_t* __restrict__ weight, value_t uniform, int limit, value_t* dist, int* queued,
                      unsigned* in_far, index_t* queue, offset_t* start, index_t* far, word64_t* words, int* least,
                      int k, int j, int threshold)
{
    const weighted_graph g{n, row_ptr, col, weight, uniform, limit};
    const search_piles s{(int*)dist, queued, in_far, queue, start, far, words, least, n};
    if (blockIdx.x == 0 && threadIdx.x == 0) clear_tally(s, k);
    relax_phase(g, s, k, j, threshold);
}

SPG_KERNEL sssp_split(index_t n, const offset_t* __restrict__ row_ptr, value_t* dist, int* queued, unsigned* in_far,
                      index_t* queue, offset_t* start, index_t* far, word64_t* words, int* least, int k, int j,
                      int lower, int upper)
{
    const weighted_graph g{n, row_ptr, nullptr, nullptr, 0, 0};
    const search_piles s{(int*)dist, queued, in_far, queue, start, far, words, least, n};
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        clear_tally(s, k);
        clear_far(s, j);
    }
    split_far(g, s, k, j, lower, upper, blockIdx.x, gridDim.x);
}
