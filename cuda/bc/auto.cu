// auto: betweenness from one source in one launch, each level by one block, from its own side, or from the other.
//
// Layout   see graph/paths.cuh; barrier unsigned [1]; handover int64 [5]: what block 0 hands over after levels alone,
//          three words forward and two back. col_ptr, row: in-edges, the same arrays as row_ptr and col for undirected
//          graphs. old_id: null where ids are the input's. stamps as in persistent.cu; codes 0 push, 1 pull, 2 one
//          block, 3 scatter, 4 gather, -1 the end.
// Mapping  one cooperative launch, as many blocks as fit. Every block decides by the same numbers and the table below.
// Wins     on graphs of few levels, where one level holds most edges and both its neighbours few: those edges are then
//          never looked at, forward or back; and on thousands of small levels, which cost no grid barrier.
// Loses    against persistent by what deciding costs.
// Idea     Beamer, Asanovic and Patterson, SC 2012, carried over to both of Brandes' passes. Pulling cannot stop at the
//          first parent here, since all of them count: so alpha is below 1, far below that of a search for levels.
#include "../common/spg.cuh"
#include "../graph/paths_alone.cuh"

// How a level is done: E_k are the edges of the frontier of level k, U those of vertices in no frontier yet.
//   forward   few vertices of low degree        block 0 alone, the others wait (graph/paths_alone.cuh)
//             E_k alpha > U + n / 8             pull: unfound vertices look at all their in-edges
//             else                              push: counts go out by atomics
//   back      few vertices of low degree        block 0 alone
//             undirected, E_k > beta E_(k+1)    scatter: the level after adds to this one by atomics
//             else                              gather: this level sums up the shares of the level after

SPG_KERNEL __launch_bounds__(1024, 1)
    bc_auto(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
            const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
            const index_t* __restrict__ old_id, int* level, path_sums* paths, int* scale, index_t* queue,
            offset_t* start, word64_t* tally, double* dependency, long long* handover, unsigned* barrier,
            int small_vertices, long long small_edges, double alpha, double beta, int undirected, long long* stamps,
            int watched)
{
    SPG_SHARED_2D(index_t, gathered, 32, 64);
    const bool one = blockIdx.x == 0 && threadIdx.x == 0;
    const small_frontier small{small_vertices, small_edges};
    index_t* slots = gathered[threadIdx.x / 32];
    begin_paths(n, *source, level, paths, scale);
    if (one) begin_frontier(*source, row_ptr, queue, start, tally);
    grid_barrier(barrier);

    int k = 0;
    long long first = 0, unexplored = row_ptr[n];
    for (;;) {
        const word64_t now = tally[k];
        if (now == 0) break;
        if (fits_block(now, small)) {
            if (blockIdx.x == 0) {
                k = push_paths_alone(k, small, row_ptr, col, level, paths, scale, queue, start, tally, first,
                                     unexplored, stamps, watched);
                if (one) {
                    handover[0] = k;
                    handover[1] = first;
                    handover[2] = unexplored;
                }
            }
            grid_barrier(barrier);
            k = (int)handover[0];
            first = handover[1];
            unexplored = handover[2];
            continue;
        }
        const double factor = forward_factor(scale, k);
        if (one) {
            tally[k + 2] = 0;
            mark_level(scale, k, factor);
        }
        unexplored -= tally_edges(now);
        const bool pull = (double)tally_edges(now) * alpha > (double)unexplored + n / 8;
        if (one) stamp(stamps, watched, k, pull);
        if (pull)
            pull_paths(n, k, first, factor, row_ptr, col_ptr, row, level, paths, scale, queue, start, tally, slots);
        else
            push_paths(k, first, factor, row_ptr, col, level, paths, scale, queue, start, tally, slots);
        grid_barrier(barrier);
        first += tally_count(now);
        ++k;
    }

    if (one) stamp(stamps, watched, k, -1);
    // From the last level that has out-edges: they may lead to vertices that have none, which are in no frontier.
    for (--k; k >= 1;) {
        const word64_t now = tally[k];
        if (fits_block(now, small)) {
            if (blockIdx.x == 0) {
                k = gather_shares_alone(k, small, row_ptr, col, level, paths, scale, queue, tally, first,
                                        stamps + 2 * watched, watched);
                if (one) {
                    handover[3] = k;
                    handover[4] = first;
                }
            }
            grid_barrier(barrier);
            k = (int)handover[3];
            first = handover[4];
            continue;
        }
        const double factor = backward_factor(scale, k);
        const bool scatter = undirected && (double)tally_edges(now) > beta * (double)tally_edges(tally[k + 1]);
        if (one) stamp(stamps + 2 * watched, watched, k, scatter ? 3 : 4);
        if (scatter)
            scatter_shares(k, first, factor, row_ptr, col, level, paths, queue, start, tally);
        else
            gather_shares(k, first - tally_count(now), factor, row_ptr, col, level, paths, queue, start, tally);
        first -= tally_count(now);
        grid_barrier(barrier);
        --k;
    }
    if (one) stamp(stamps + 2 * watched, watched, 0, -1);
    end_paths(n, *source, paths, old_id, dependency);
}
