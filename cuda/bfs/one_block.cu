// one-block: breadth-first search by a single block, which hands over to the grid where the frontier grows.
//
// Layout   see graph/levels.cuh; one copy of the bitmap; barrier unsigned [1]; handover int64 [2];
//          tally [2][3]: block 0 leaves its tally in the set that is not in use, which is in use from then on.
//          trace as in persistent.cu.
// Mapping  one cooperative launch. While the frontier is small, block 0 runs level after level with a block barrier
//          between them and its queue in shared memory; the other blocks wait at the grid barrier. A larger frontier
//          is a level of the whole grid. Where degrees are small and alike and it fits, the bitmap of visited vertices
//          is in shared memory too (graph/shared_bitmap.cuh), else four edges per thread or, for uneven degrees, equal
//          parts of the edges (graph/one_block.cuh).
// Wins     on long thin graphs (chains, roads, grids): thousands of levels of a few vertices each.
// Loses    against auto where frontiers become a large part of the graph.
// Idea     the small-frontier kernels of Enterprise (Liu and Huang, SC 2015) and of Gunrock's roads, in one launch.
#include "../common/spg.cuh"
#include "../graph/shared_bitmap.cuh"

// `near` is dynamic shared memory as shared_bitmap.cuh lays it out where BITMAP says so, else null.
template <bool BITMAP>
__device__ __forceinline__ void one_block_search(index_t n, const index_t* __restrict__ source,
                                                 const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                                 int* level, unsigned* visited, index_t* queue, offset_t* start,
                                                 word64_t* tallies, long long* handover, unsigned* barrier,
                                                 small_frontier small, long long* trace, int trace_levels,
                                                 index_t* near)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    long long unexplored = 0;
    word64_t* tally = tallies;
    begin_levels(n, *source, row_ptr, nullptr, level, visited, queue, start, tally);
    grid_barrier(barrier);
    int k = 0;
    for (;;) {
        if (tally[k % 3] == 0) break;
        if (small.holds(tally[k % 3])) {
            // All blocks read the same tally, so all come here. What they wait for is block 0.
            word64_t* after = tally == tallies ? tallies + 3 : tallies;
            if (blockIdx.x == 0) {
                if (BITMAP)
                    k = shared_bitmap_levels(n, k, small, row_ptr, col, level, visited, queue, start, tally, after,
                                             near, unexplored, trace, trace_levels, 2);
                else
                    k = one_block_levels(n, k, small, row_ptr, col, level, visited, queue, start, tally, after,
                                         unexplored, trace, trace_levels, 2);
                if (first) handover[0] = k;
            }
            grid_barrier(barrier);
            tally = after;
            k = (int)handover[0];
            continue;
        }
        if (first) {
            tally[(k + 2) % 3] = 0;
            if (k < trace_levels) {
                trace[2 * k] = spg_nanoseconds();
                trace[2 * k + 1] = 0;
            }
        }
        push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
        grid_barrier(barrier);
        ++k;
    }
    if (first && k < trace_levels) {
        trace[2 * k] = spg_nanoseconds();
        trace[2 * k + 1] = -1;
    }
}

SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_one_block(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                  const index_t* __restrict__ col, int* level, unsigned* visited, index_t* queue, offset_t* start,
                  word64_t* tallies, long long* handover, unsigned* barrier, int small_vertices, long long small_edges,
                  long long* trace, int trace_levels)
{
    one_block_search<false>(n, source, row_ptr, col, level, visited, queue, start, tallies, handover, barrier,
                            small_frontier{small_vertices, small_edges}, trace, trace_levels, nullptr);
}

// A kernel of its own, so that neither's shared memory is at the expense of the other's L1.
SPG_KERNEL __launch_bounds__(1024, 1)
    bfs_one_block_bitmap(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                         const index_t* __restrict__ col, int* level, unsigned* visited, index_t* queue,
                         offset_t* start, word64_t* tallies, long long* handover, unsigned* barrier, int small_vertices,
                         long long small_edges, long long* trace, int trace_levels)
{
    SPG_DYNAMIC_SHARED(index_t, near);
    one_block_search<true>(n, source, row_ptr, col, level, visited, queue, start, tallies, handover, barrier,
                           small_frontier{small_vertices, small_edges}, trace, trace_levels, near);
}
