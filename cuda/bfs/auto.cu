// auto: breadth-first search that chooses in each level between one block, top-down and bottom-up, in one launch.
//
// Layout   see graph/levels.cuh; barrier unsigned [1]; handover int64 [2]; tally [2][3] as in one_block.cu, one word
//          more for queue_found, and [3] for pull_busiest. For undirected graphs col_ptr and row are the same arrays as
//          row_ptr and col. busiest and bare: see graph/busiest.cuh; of bfs_auto_busiest only, else null.
//          trace as in persistent.cu; codes 0 top-down, 1 bottom-up, 2 one block, -1 the end.
// Mapping  one cooperative launch, as many blocks as fit. Every block decides by the same numbers, so no block has to
//          be told. A level costs one grid barrier; turning from bottom-up costs one more, for the queue.
// Wins     on every kind of graph that one of its parts wins on; that is what it is for. On skewed graphs also against
//          these: nearly all that a bottom-up level finds, it finds by each vertex's busiest neighbour.
// Loses    against persistent on small graphs of uneven degrees, which the host leaves to that (variants/bfs).
// Idea     Beamer, Asanovic and Patterson, SC 2012; another rule for turning, by what either way would look at.
#include "../common/spg.cuh"
#include "../graph/busiest.cuh"
#include "../graph/shared_bitmap.cuh"

// How a level is done: F vertices and E edges of the frontier, U edges of vertices not yet in any frontier.
//   F and E small                               block 0 alone (graph/one_block.cuh, shared_bitmap.cuh)
//   E growing, E x alpha more than the looks    bottom-up over the bitmap (levels.cuh, busiest.cuh)
//   that it would take (levels.cuh), until
//   F < n / beta
//   else                                        top-down, the frontier's edges cut into equal parts
enum { PUSH, PULL, ALONE, QUEUE, END };  // the first three as in the trace; a queue is made after bottom-up levels

// What a block knows between levels. It is in shared memory and only thread 0 decides, so that no thread holds
// registers for it while a level is done.
struct search_state {
    word64_t now;  // the tally of level k
    long long unexplored;  // U
    double unvisited;  // without those that one block alone has found: too many at most, and those are few
    double edges_before;  // of the last frontier that the grid had
    int k, how;
    bool bottom_up;  // how the level before went
    bool second_copy;  // of the bitmap: which has what is visited. The other one: what was before a bottom-up level
    bool second_tally;
};

// BITMAP: dynamic shared memory `near` is as shared_bitmap.cuh lays it out. BUSIEST: see busiest.cuh.
template <bool BITMAP, bool BUSIEST>
__device__ __forceinline__ void adaptive_search(index_t n, const index_t* __restrict__ source,
                                                const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                                const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                                const index_t* __restrict__ busiest, const unsigned* __restrict__ bare,
                                                int* level, unsigned* visited, index_t* queue, offset_t* start,
                                                word64_t* tallies, long long* handover, unsigned* barrier,
                                                small_frontier small, double alpha, double beta, double turn,
                                                int probes, long long* trace, int trace_levels, index_t* near)
{
    SPG_SHARED_VAR(search_state, s);
    const bool first = blockIdx.x == 0 && threadIdx.x == 0, directed = col_ptr != row_ptr;
    word64_t* const pulled = tallies + 7;  // what pull_busiest counts, by k % 3
    const auto choose = [&] {
        const word64_t* const counts = BUSIEST && s.bottom_up ? pulled : tallies + 3 * s.second_tally;
        s.now = counts[s.k % 3];
        const double count = (double)tally_count(s.now);
        double edges = (double)tally_edges(s.now);
        if (s.now == 0) {
            s.how = END;
        } else if (s.bottom_up) {
            // pull_busiest does not count them: as many as the vertices that are left have on average.
            if (BUSIEST && !directed) edges = (double)s.unexplored * (count / s.unvisited);
            s.how = count * beta < n || (!BUSIEST && small.holds(s.now)) ? QUEUE : PULL;
        } else if (small.holds(s.now) && (BITMAP || s.k > 0)) {
            // Where degrees are uneven, level 1 is large as a rule: to and from one block costs more than level 0.
            s.how = ALONE;
        } else {
            // Not where the frontier shrinks again: the few that are left are soon found from its side.
            const bool pays = edges > s.edges_before &&
                              bottom_up_pays(edges, (double)s.unexplored - edges, s.unvisited - count, alpha, turn);
            s.how = pays ? PULL : PUSH;
        }
        if (s.how != PUSH && s.how != PULL) return;
        s.edges_before = edges;
        s.unexplored -= (long long)edges;
        s.unvisited -= count;
    };
    if (threadIdx.x == 0) {
        s.unexplored = row_ptr[n];
        s.unvisited = BUSIEST ? n - (double)bare[words_of(n)] : n;
        s.edges_before = 0;
        s.k = 0;
        s.bottom_up = s.second_copy = s.second_tally = false;
    }
    if (BUSIEST) {
        if (first) pulled[0] = pulled[1] = pulled[2] = 0;
        begin_levels_bare(n, *source, row_ptr, bare, level, visited, queue, start, tallies);
    } else {
        begin_levels(n, *source, row_ptr, col_ptr, level, visited, queue, start, tallies);
    }
    grid_barrier(barrier, choose);
    for (;;) {
        const int k = s.k, how = s.how;
        unsigned* const seen = visited + (s.second_copy ? words_of(n) : 0);
        unsigned* const other = visited + (s.second_copy ? 0 : words_of(n));
        word64_t* const tally = tallies + 3 * s.second_tally;
        if (first && (how == PUSH || how == PULL)) {
            tally[(k + 2) % 3] = 0;
            if (BUSIEST) pulled[(k + 2) % 3] = 0;
        }
        if (first && how != ALONE && how != QUEUE && k < trace_levels) {
            trace[2 * k] = spg_nanoseconds();
            trace[2 * k + 1] = how == END ? -1 : how;
        }
        if (how == END) break;
        if (how == PUSH) {
            push_level(n, k, row_ptr, col, level, seen, queue, start, tally);
        } else if (how == PULL && BUSIEST) {
            pull_busiest(n, k, probes, directed, row_ptr, col_ptr, row, busiest, level, seen, other, pulled);
        } else if (how == PULL) {
            if (first) tallies[6] = 0;
            pull_level(n, k, probes, row_ptr, col_ptr, row, level, seen, other, tally);
        } else if (how == QUEUE) {
            queue_found(n, k, row_ptr, other, seen, queue, start, BUSIEST ? tally + k % 3 : tallies + 6);
        } else if (blockIdx.x == 0) {
            word64_t* const after = tallies + 3 * !s.second_tally;
            long long unexplored = s.unexplored;
            int last;
            if (BITMAP)
                last = shared_bitmap_levels(n, k, small, row_ptr, col, level, seen, queue, start, tally, after, near,
                                            unexplored, trace, trace_levels, ALONE);
            else
                last = one_block_levels(n, k, small, row_ptr, col, level, seen, queue, start, tally, after, unexplored,
                                        trace, trace_levels, ALONE);
            if (threadIdx.x == 0) {
                handover[0] = last;
                handover[1] = unexplored;
                if (BUSIEST) pulled[0] = pulled[1] = pulled[2] = 0;
            }
        }
        grid_barrier(barrier, [&] {
            if (how == ALONE) {
                s.second_tally = !s.second_tally;
                s.k = (int)handover[0];
                s.unexplored = handover[1];
                s.edges_before = 0;
            } else if (how == QUEUE) {
                s.edges_before = (double)n * n;  // more than any: the frontier shrinks
            } else {
                ++s.k;
                if (how == PULL) s.second_copy = !s.second_copy;
            }
            s.bottom_up = how == PULL;
            choose();
        });
    }
}

SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_auto(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
             const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
             const index_t* __restrict__ busiest, const unsigned* __restrict__ bare, int* level, unsigned* visited,
             index_t* queue, offset_t* start, word64_t* tallies, long long* handover, unsigned* barrier,
             int small_vertices, long long small_edges, double alpha, double beta, double turn, int probes,
             long long* trace, int trace_levels)
{
    adaptive_search<false, false>(n, source, row_ptr, col, col_ptr, row, busiest, bare, level, visited, queue, start,
                                  tallies, handover, barrier, small_frontier{small_vertices, small_edges}, alpha, beta,
                                  turn, probes, trace, trace_levels, nullptr);
}

// Kernels of their own, so that none's registers, and none's shared memory, hence L1, are at the expense of the others.
SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_auto_bitmap(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                    const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr,
                    const index_t* __restrict__ row, const index_t* __restrict__ busiest,
                    const unsigned* __restrict__ bare, int* level, unsigned* visited, index_t* queue, offset_t* start,
                    word64_t* tallies, long long* handover, unsigned* barrier, int small_vertices,
                    long long small_edges, double alpha, double beta, double turn, int probes, long long* trace,
                    int trace_levels)
{
    SPG_DYNAMIC_SHARED(index_t, near);
    adaptive_search<true, false>(n, source, row_ptr, col, col_ptr, row, busiest, bare, level, visited, queue, start,
                                 tallies, handover, barrier, small_frontier{small_vertices, small_edges}, alpha, beta,
                                 turn, probes, trace, trace_levels, near);
}

SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_auto_busiest(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                     const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr,
                     const index_t* __restrict__ row, const index_t* __restrict__ busiest,
                     const unsigned* __restrict__ bare, int* level, unsigned* visited, index_t* queue, offset_t* start,
                     word64_t* tallies, long long* handover, unsigned* barrier, int small_vertices,
                     long long small_edges, double alpha, double beta, double turn, int probes, long long* trace,
                     int trace_levels)
{
    adaptive_search<false, true>(n, source, row_ptr, col, col_ptr, row, busiest, bare, level, visited, queue, start,
                                 tallies, handover, barrier, small_frontier{small_vertices, small_edges}, alpha, beta,
                                 turn, probes, trace, trace_levels, nullptr);
}

// Once per graph.
SPG_KERNEL bfs_find_busiest(index_t n, const offset_t* __restrict__ row_ptr, const offset_t* __restrict__ col_ptr,
                            const index_t* __restrict__ row, index_t* busiest, unsigned* bare)
{
    find_busiest(n, row_ptr, col_ptr, row, busiest, bare);
}
