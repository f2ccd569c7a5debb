// edge-balanced: breadth-first search, the edges of the frontier cut into equal parts, whatever their vertices.
//
// Layout   see graph/levels.cuh; one copy of the bitmap.
// Mapping  one launch per level. Every warp takes the same number of consecutive edges of the frontier, finds the
//          vertex they begin in by a search over the queue's edge offsets, and walks on from there.
// Wins     on any distribution of degrees: a hub is spread over all warps by itself, without classes to tune.
// Loses    a few steps of searching per warp and level against a thread per vertex where all degrees are alike.
// Idea     merge-path (Green, McColl and Bader, ICS 2012); the load-balanced partitioning of Davidson and others,
//          IPDPS 2014. The prefix sum comes with the places in the queue: one 64-bit atomic gives both.
#include "../common/spg.cuh"
#include "../graph/levels.cuh"

SPG_KERNEL edge_balanced_begin(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                               int* level, unsigned* visited, index_t* queue, offset_t* start, word64_t* tally)
{
    begin_levels(n, *source, row_ptr, nullptr, level, visited, queue, start, tally);
}

SPG_KERNEL edge_balanced_level(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                               int* level, unsigned* visited, index_t* queue, offset_t* start, word64_t* tally)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) tally[(k + 2) % 3] = 0;
    push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
}
