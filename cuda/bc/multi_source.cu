// multi-source: betweenness from up to 64 sources in one launch, which share what they read: a bit of a word, and a
// column of the numbers, for each.
//
// Layout   graph/sources.cuh and graph/source_sums.cuh; into: rows shared by warps of in-edges, out: of out-edges.
//          old_id int32 [n], null where ids are the input's. dependency double [n][width], by the ids of the input: on
//          each source, s beside s + 1. barrier unsigned [1]; handover int [1]. stamps: stamps.cuh, [3] of them: levels
//          as in bfs/multi_source.cu, then codes 3 forward, 4 back.
// Mapping  one cooperative launch, as many blocks as fit. First the levels of all searches. Then, level by level, each
//          vertex sums up the counts of its predecessors, a warp for each vertex; and from the last level up the shares
//          of its successors. No atomics but for rows that several warps share.
// Wins     where searches are at the same vertices in the same levels: on graphs of few levels.
// Loses    on graphs of many levels, each of which is a pass over all vertices.
// Idea     Brandes, "A faster algorithm for betweenness centrality", 2001; levels by bits of a word as in Then et al.,
//          VLDB 2014; sums of a vertex side by side, as in SpMM: Buluc and Gilbert, "The Combinatorial BLAS", 2011.
#include "../common/spg.cuh"
#include "../graph/source_sums.cuh"

SPG_KERNEL __launch_bounds__(SPG_THREADS, 1024 / SPG_THREADS)
    bc_multi_source(index_t n, int width, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                    const index_t* __restrict__ col, const offset_t* __restrict__ col_ptr,
                    const index_t* __restrict__ row, const index_t* __restrict__ old_id, double* dependency,
                    word64_t* seen, word64_t* fresh, word64_t* planes, int plane_count, index_t* queue, offset_t* start,
                    word64_t* counters, index_t* strip_row, offset_t* strip_begin, unsigned* strips, int* handover,
                    unsigned* barrier, int small_vertices, long long small_edges, double alpha, double turn,
                    double* paths, word64_t* there, word64_t* large, double* sums, const index_t* __restrict__ into_row,
                    int into_count, const index_t* __restrict__ into_strip, const offset_t* __restrict__ into_begin,
                    int into_strips, const index_t* __restrict__ out_row, int out_count,
                    const index_t* __restrict__ out_strip, const offset_t* __restrict__ out_begin, int out_strips,
                    long long* stamps, int watched)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    source_words words{n,       seen, seen + n, fresh, planes,    plane_count, row_ptr, col,
                       col_ptr, row,  queue,    start, strip_row, strip_begin, strips,  level_counters{counters}};
    const source_sums b{n, width, paths, there, large, sums};
    const long_rows into{into_row, into_count, into_strip, into_begin, into_strips};
    const long_rows out{out_row, out_count, out_strip, out_begin, out_strips};
    const long long stride = (long long)gridDim.x * blockDim.x, me = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (long long i = me; i < (long long)n * width; i += stride) dependency[i] = 0;
    const int deepest = search_sources(words, width, source, handover, barrier, small_vertices, small_edges, alpha,
                                       turn, stamps, watched);
    if (first) {
        *strips = 0;  // for the next run
        stamp(stamps, watched, deepest, -1);
        stamp(stamps + 2 * watched, watched, 0, 3);
    }
    for (long long i = me; i <= deepest; i += stride) large[i] = 0;
    for (long long v = me; v < n; v += stride) {
        const word64_t bits = at_level(words, 0, deepest, v);
        b.at(0)[v] = bits;
        for (int s = 0; s < width && bits >> s; ++s)
            if (bits >> s & 1) b.of(v)[s] = 1;
    }
    grid_barrier(barrier);
    for (int k = 1; k <= deepest; ++k) {
        if (first) stamp(stamps + 2 * watched, watched, k, 3);
        sum_level(words, b, k, k - 1, deepest, col_ptr, row, into, barrier,
                  [&](long long v, word64_t mine, lane_sums sum) { store_counts(b, k, v, mine, sum); });
    }
    if (first) stamp(stamps + 2 * watched, watched, deepest + 1, -1);
    for (int k = deepest; k >= 1; --k) {
        if (first) stamp(stamps + 4 * watched, watched, k, 4);
        sum_level(words, b, k, k + 1, deepest, row_ptr, col, out, barrier,
                  [&](long long v, word64_t mine, lane_sums sum) {
                      const long long called = old_id ? old_id[v] : v;
                      store_shares(b, k, v, mine, sum, dependency + called * width);
                  });
    }
    if (first) stamp(stamps + 4 * watched, watched, 0, -1);
}
