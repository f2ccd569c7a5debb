// auto: breadth-first search that chooses in each level between one block, top-down and bottom-up, in one launch.
//
// Layout   see graph/levels.cuh; barrier unsigned [1]; handover int64 [2]; tally [2][3] as in one_block.cu, and one
//          word more for queue_found.
//          For undirected graphs col_ptr and row are the same arrays as row_ptr and col.
//          trace as in persistent.cu; codes 0 top-down, 1 bottom-up, 2 one block, -1 the end.
// Mapping  one cooperative launch, as many blocks as fit. Every block decides by the same numbers, so no block has to
//          be told: F vertices and E edges of the frontier, U edges of vertices not yet in any frontier.
//          A level costs one grid barrier; turning from bottom-up costs one more, for the queue.
// Wins     on every kind of graph that one of its parts wins on; that is what it is for.
// Loses    against that part alone by what deciding costs: a few instructions and a load per level.
// Idea     Beamer, Asanovic and Patterson, SC 2012; another rule for turning, by what either way would look at.
#include "../common/spg.cuh"
#include "../graph/shared_bitmap.cuh"

// How a level is done: F vertices and E edges of the frontier, U edges of vertices not yet in any frontier.
//   F and E small                               block 0 alone (graph/one_block.cuh, shared_bitmap.cuh)
//   E growing, E x alpha more than the looks    bottom-up over the bitmap
//   that it would take (levels.cuh), until
//   F < n / beta
//   else                                        top-down, the frontier's edges cut into equal parts

// `near` is dynamic shared memory as shared_bitmap.cuh lays it out where BITMAP says so, else null.
template <bool BITMAP>
__device__ __forceinline__ void adaptive_search(index_t n, const index_t* __restrict__ source,
                                                const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                                const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                                int* level, unsigned* visited, index_t* queue, offset_t* start,
                                                word64_t* tallies, long long* handover, unsigned* barrier,
                                                small_frontier small, double alpha, double beta, double turn,
                                                int probes, long long* trace, int trace_levels, index_t* near)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    unsigned* seen = visited;                 // what is visited before the level
    unsigned* other = visited + words_of(n);  // after a bottom-up level: what was visited before it
    word64_t* tally = tallies;
    long long unexplored = row_ptr[n];
    double unvisited = n;     // without those that one block alone has found: too many at most, and those are few
    bool bottom_up = false;   // how the level before went
    double edges_before = 0;  // of the last frontier that the grid had
    begin_levels(n, *source, row_ptr, col_ptr, level, seen, queue, start, tally);
    grid_barrier(barrier);
    int k = 0;
    for (;;) {
        const word64_t now = tally[k % 3];
        if (now == 0) break;
        const bool alone = small.holds(now);
        const double count = (double)tally_count(now), edges = (double)tally_edges(now);
        // Not where the frontier shrinks again: the few that are left are soon found from its side.
        const bool pull =
            !alone && (bottom_up ? count * beta >= n
                                 : edges > edges_before &&
                                       bottom_up_pays(edges, unexplored - edges, unvisited - count, alpha, turn));
        edges_before = edges;
        if (bottom_up && !pull) {
            queue_found(n, k, row_ptr, other, seen, queue, start, tallies + 6);
            bottom_up = false;
            grid_barrier(barrier);
        }
        if (alone) {
            word64_t* after = tally == tallies ? tallies + 3 : tallies;
            if (blockIdx.x == 0) {
                if (BITMAP)
                    k = shared_bitmap_levels(n, k, small, row_ptr, col, level, seen, queue, start, tally, after, near,
                                             unexplored, trace, trace_levels, 2);
                else
                    k = one_block_levels(n, k, small, row_ptr, col, level, seen, queue, start, tally, after, unexplored,
                                         trace, trace_levels, 2);
                if (threadIdx.x == 0) {
                    handover[0] = k;
                    handover[1] = unexplored;
                }
            }
            grid_barrier(barrier);
            tally = after;
            edges_before = 0;
            k = (int)handover[0];
            unexplored = handover[1];
            continue;
        }
        unexplored -= tally_edges(now);
        unvisited -= count;
        if (first) {
            tally[(k + 2) % 3] = 0;
            if (k < trace_levels) {
                trace[2 * k] = spg_nanoseconds();
                trace[2 * k + 1] = pull;
            }
        }
        if (pull) {
            if (first) tallies[6] = 0;
            pull_level(n, k, probes, row_ptr, col_ptr, row, level, seen, other, tally);
            unsigned* swap = seen;
            seen = other;
            other = swap;
            bottom_up = true;
        } else {
            push_level(n, k, row_ptr, col, level, seen, queue, start, tally);
        }
        grid_barrier(barrier);
        ++k;
    }
    if (first && k < trace_levels) {
        trace[2 * k] = spg_nanoseconds();
        trace[2 * k + 1] = -1;
    }
}

SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_auto(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
             const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
             int* level, unsigned* visited, index_t* queue, offset_t* start, word64_t* tallies, long long* handover,
             unsigned* barrier, int small_vertices, long long small_edges, double alpha, double beta, double turn,
             int probes, long long* trace, int trace_levels)
{
    adaptive_search<false>(n, source, row_ptr, col, col_ptr, row, level, visited, queue, start, tallies, handover,
                           barrier, small_frontier{small_vertices, small_edges}, alpha, beta, turn, probes, trace,
                           trace_levels, nullptr);
}

// A kernel of its own, so that neither's shared memory is at the expense of the other's L1.
SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_auto_bitmap(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                    const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr,
                    const index_t* __restrict__ row, int* level, unsigned* visited, index_t* queue, offset_t* start,
                    word64_t* tallies, long long* handover, unsigned* barrier, int small_vertices,
                    long long small_edges, double alpha, double beta, double turn, int probes, long long* trace,
                    int trace_levels)
{
    SPG_DYNAMIC_SHARED(index_t, near);
    adaptive_search<true>(n, source, row_ptr, col, col_ptr, row, level, visited, queue, start, tallies, handover,
                          barrier, small_frontier{small_vertices, small_edges}, alpha, beta, turn, probes, trace,
                          trace_levels, near);
}
