// persistent: betweenness from one source, all levels forward and back in one cooperative launch.
//
// Layout   see graph/paths.cuh; barrier unsigned [1], see common/ordered.cuh; old_id: null where ids are the input's.
//          stamps: 2 x `watched` steps, those of levels forward and back, see graph/stamps.cuh; codes 0 push, 4 gather,
//          -1 the end.
// Mapping  as many blocks as fit. A level's edges are cut into equal parts for all warps: forward the counts go out by
//          atomics, back the vertices of the level gather their successors' shares. A grid barrier per level.
// Wins     over push on hubs and on many levels: no read-back, no thread that walks a hub alone.
// Loses    on frontiers so small that the barrier is most of the level, and where the other side of a level has far
//          fewer edges (auto).
// Idea     Brandes, J. Math. Sociology 2001; merge-path's even cuts, see graph/frontier.cuh.
#include "../common/spg.cuh"
#include "../graph/paths.cuh"
#include "../graph/stamps.cuh"

SPG_KERNEL __launch_bounds__(1024, 1)
    bc_persistent(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                  const index_t* __restrict__ col, const index_t* __restrict__ old_id, int* level, path_sums* paths,
                  int* scale, index_t* queue, offset_t* start, word64_t* tally, double* dependency, unsigned* barrier,
                  long long* stamps, int watched)
{
    SPG_SHARED_2D(index_t, gathered, 32, 64);
    const bool one = blockIdx.x == 0 && threadIdx.x == 0;
    begin_paths(n, *source, level, paths, scale);
    if (one) begin_frontier(*source, row_ptr, queue, start, tally);
    grid_barrier(barrier);
    int k = 0;
    long long first = 0;
    for (; tally[k] != 0; ++k) {
        const double factor = forward_factor(scale, k);
        if (one) {
            tally[k + 2] = 0;
            mark_level(scale, k, factor);
            stamp(stamps, watched, k, 0);
        }
        push_paths(k, first, factor, row_ptr, col, level, paths, scale, queue, start, tally,
                   gathered[threadIdx.x / 32]);
        grid_barrier(barrier);
        first += tally_count(tally[k]);
    }
    if (one) stamp(stamps, watched, k, -1);
    // From the last level that has out-edges: they may lead to vertices that have none, which are in no frontier.
    for (--k; k >= 1; --k) {
        first -= tally_count(tally[k]);
        if (one) stamp(stamps + 2 * watched, watched, k, 4);
        gather_shares(k, first, backward_factor(scale, k), row_ptr, col, level, paths, queue, start, tally);
        grid_barrier(barrier);
    }
    if (one) stamp(stamps + 2 * watched, watched, 0, -1);
    end_paths(n, *source, paths, old_id, dependency);
}
