// multi-source: up to 64 breadth-first searches in one launch, which share what they read: a bit of a word for each.
//
// Layout   graph/sources.cuh. level int32 [count][n]: the answer, -1 where a source does not reach, by the ids of the
//          input (new_id int32 [n], null where they are the graph's own). Long rows, those of more than SPG_STRIP
//          in-edges, are also in strips: strip_row int32, strip_begin offset_t [strips], *strips of them.
//          barrier unsigned [1]; handover int [1]. stamps: stamps.cuh; codes 4 x vertices of the frontier and 0
//          top-down, 1 bottom-up, 2 one block; 3 alone: writing the levels.
// Mapping  one cooperative launch, as many blocks as fit: search_sources, then the levels are written, each once.
// Wins     where searches look at the same edges: on graphs of few levels.
// Loses    where frontiers never meet: on a chain 64 searches take as many steps as the deepest one.
// Idea     Then et al., "The more the merrier: efficient multi-source graph traversal", VLDB 2014; Liu, Huang and Hu,
//          "iBFS: concurrent breadth-first search on GPUs", SIGMOD 2016.
#include "../common/spg.cuh"
#include "../graph/sources.cuh"

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
    const int k = search_sources(words, count, source, handover, barrier, small_vertices, small_edges, alpha, turn,
                                 stamps, watched);
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
