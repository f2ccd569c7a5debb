// direction: breadth-first search, top-down or bottom-up in each level, as the host decides.
//
// Layout   see graph/levels.cuh; tally [4]: the last word is queue_found's.
// Mapping  one launch per level, and one more where bottom-up turns to top-down (the queue has to be made again).
//          Top-down: edges of the frontier cut into equal parts. Bottom-up: a warp per word of the bitmap.
//          The host reads the tally back after each level and chooses (variants/bfs): to bottom-up when
//          frontier edges x alpha > the looks it would take (levels.cuh) and growing, back when frontier < n / beta.
//          Other rules to compare with: `rule`. The textbook's turns when frontier edges > unexplored edges / alpha.
// Wins     on graphs of few levels, where one or two of them hold most edges: bottom-up looks at few of those.
// Loses    against one launch for all levels (auto): a read-back for each.
// Idea     Beamer, Asanovic and Patterson, SC 2012.
#include "../common/spg.cuh"
#include "../graph/levels.cuh"

SPG_KERNEL direction_begin(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                           const offset_t* __restrict__ col_ptr, int* level, unsigned* visited, index_t* queue,
                           offset_t* start, word64_t* tally)
{
    begin_levels(n, *source, row_ptr, col_ptr, level, visited, queue, start, tally);
}

SPG_KERNEL direction_push(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                          int* level, unsigned* visited, index_t* queue, offset_t* start, word64_t* tally)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) tally[(k + 2) % 3] = 0;
    push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
}

SPG_KERNEL direction_pull(index_t n, int k, int probes, const offset_t* __restrict__ row_ptr,
                          const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row, int* level,
                          unsigned* visited, int copy, word64_t* tally)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) tally[(k + 2) % 3] = tally[3] = 0;
    const long long words = words_of(n);
    pull_level(n, k, probes, row_ptr, col_ptr, row, level, visited + copy * words, visited + (1 - copy) * words, tally);
}

SPG_KERNEL direction_queue(index_t n, int k, const offset_t* __restrict__ row_ptr, const unsigned* visited, int copy,
                           index_t* queue, offset_t* start, word64_t* tally)
{
    const long long words = words_of(n);
    queue_found(n, k, row_ptr, visited + (1 - copy) * words, visited + copy * words, queue, start, tally + 3);
}
