// multi-source: up to 64 breadth-first searches in one launch, which share what they read: a bit of a word for each.
//
// Layout   graph/sources.cuh. level int32 [count][n]: the answer, -1 where a source does not reach, by the ids of the
//          input (new_id int32 [n], null where they are the graph's own). Long rows, those of more than SPG_STRIP
//          in-edges, are also in strips: strip_row int32, strip_begin offset_t [strips], *strips of them.
//          barrier unsigned [1]; handover int [1]. stamps: stamps.cuh; codes 4 x vertices of the frontier and 0
//          top-down, 1 bottom-up, 2 one block; 3 alone: writing the levels.
// Mapping  one cooperative launch, as many blocks as fit. Every block decides by the same numbers: E edges of the
//          frontier, O in-edges of vertices that a search may still find. Top-down, the frontier's edges are cut into
//          equal parts; a level costs two barriers. Bottom-up a warp takes 32 rows, or a strip; a level costs one.
//          Few vertices are left to one block. The levels are written in the end, each once.
// Wins     where searches look at the same edges: on graphs of few levels.
// Loses    where frontiers never meet: on a chain 64 searches take as many steps as the deepest one.
// Idea     Then et al., "The more the merrier: efficient multi-source graph traversal", VLDB 2014; Liu, Huang and Hu,
//          "iBFS: concurrent breadth-first search on GPUs", SIGMOD 2016.
#include "../common/spg.cuh"
#include "../graph/sources.cuh"
#include "../graph/stamps.cuh"

SPG_KERNEL __launch_bounds__(SPG_THREADS, 1024 / SPG_THREADS)
    bfs_multi_source(index_t n, int count, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                     const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr,
                     const index_t* __restrict__ row, const index_t* __restrict__ new_id, int* __restrict__ level,
                     word64_t* seen, word64_t* fresh, word64_t* planes, int plane_count, index_t* queue,
                     offset_t* start, word64_t* counters, index_t* strip_row, offset_t* strip_begin, unsigned* strips,
                     int* handover, unsigned* barrier, int small_vertices, long long small_edges, double alpha,
                     double turn, long long* stamps, int watched)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    source_words words{n,       seen, seen + n, fresh, planes,    plane_count, row_ptr, col,
                       col_ptr, row,  queue,    start, strip_row, strip_begin, strips,  level_counters{counters}};
    begin_sources(words, count, source);
    grid_barrier(barrier);
    long long open = col_ptr[n];
    bool pulled = false;
    int k = 0;
    for (;;) {
        const word64_t now = *words.at.tally(k);
        if (now == 0) break;
        const double push = alpha * (double)tally_edges(now) + (pulled ? turn * n : 0.0), pull = open + turn * n;
        const bool bottom_up = push > pull;
        const bool opens_plane = ((k + 1) & k) == 0;  // level k + 1 is the first with another bit
        if (!pulled && !bottom_up && !opens_plane && tally_count(now) <= small_vertices &&
            tally_edges(now) <= small_edges) {
            // Its own counters: the other blocks may still read those of this level.
            words.at.words = words.at.words == counters ? counters + SPG_LEVEL_COUNTERS : counters;
            if (blockIdx.x == 0) {
                if (first) {
                    for (int i = 0; i < 3; ++i) words.at.clear(i);
                    *words.at.tally(k) = now;
                }
                __syncthreads();
                word64_t next = now;
                do {
                    if (first) stamp(stamps, watched, k, 4 * tally_count(next) + 2);
                    settle(words, k, threadIdx.x / 32, blockDim.x / 32);
                    __syncthreads();
                    if (first) words.at.clear(k + 2);
                    push_sources(words, k, next, threadIdx.x / 32, blockDim.x / 32);
                    __syncthreads();
                    next = load_block(words.at.tally(++k));
                } while (next != 0 && ((k + 1) & k) != 0 && tally_count(next) <= small_vertices &&
                         tally_edges(next) <= small_edges);
                if (first) *handover = k;
            }
            grid_barrier(barrier);
            k = *handover;
            continue;
        }
        if (first) stamp(stamps, watched, k, 4 * tally_count(now) + bottom_up);
        if (!pulled && k > 0) {
            settle(words, k, warp_of_grid(), warps_of_grid());
            if (opens_plane && !bottom_up) clear_plane(words, k + 1);
            grid_barrier(barrier);
        } else if (pulled && !bottom_up) {
            requeue(words, k);
            if (opens_plane) clear_plane(words, k + 1);
            grid_barrier(barrier);
        }
        if (first) words.at.clear(k + 2);
        if (bottom_up) {
            if (first) *words.at.again() = 0;
            pull_sources(words, k, *words.at.alive(k));
            grid_barrier(barrier);
            open = (long long)*words.at.open(k + 1);
            word64_t* swap = words.now;
            words.now = words.before;
            words.before = swap;
        } else {
            push_sources(words, k, now, warp_of_grid(), warps_of_grid());
            grid_barrier(barrier);
        }
        pulled = bottom_up;
        ++k;
    }
    if (first) {
        *strips = 0;  // for the next run
        stamp(stamps, watched, k, 3);
    }
    if (n % 4 == 0)
        write_levels<4>(words, count, k, new_id, level);
    else
        write_levels<1>(words, count, k, new_id, level);
    if (first) stamp(stamps, watched, k + 1, -1);
}
