// persistent: breadth-first search, all levels in one cooperative launch, a grid barrier after each.
//
// Layout   see graph/levels.cuh; one copy of the bitmap; barrier unsigned [1], see common/ordered.cuh.
//          trace int64 [2][trace_levels] interleaved: a time in ns and a code per level; only if trace_levels > 0.
// Mapping  as many blocks as fit on the GPU together; the edges of each frontier are cut into equal parts.
// Wins     on many levels: about a microsecond for a barrier instead of a launch and a read-back by the host.
// Loses    on frontiers so small that even the barrier is most of the level (one-block), and on large ones, which
//          bottom-up would look through faster (auto).
// Idea     persistent threads: Gupta, Stuart and Owens, InPar 2012; Xiao and Feng's barriers, IPDPS 2010.
#include "../common/spg.cuh"
#include "../graph/levels.cuh"

SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_persistent(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                   const index_t* __restrict__ col, int* level, unsigned* visited, index_t* queue, offset_t* start,
                   word64_t* tally, unsigned* barrier, long long* trace, int trace_levels)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    begin_levels(n, *source, row_ptr, nullptr, level, visited, queue, start, tally);
    grid_barrier(barrier);
    int k = 0;
    for (; tally[k % 3] != 0; ++k) {
        if (first) {
            tally[(k + 2) % 3] = 0;
            if (k < trace_levels) {
                trace[2 * k] = spg_nanoseconds();
                trace[2 * k + 1] = 0;
            }
        }
        push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
        grid_barrier(barrier);
    }
    if (first && k < trace_levels) {
        trace[2 * k] = spg_nanoseconds();
        trace[2 * k + 1] = -1;
    }
}
