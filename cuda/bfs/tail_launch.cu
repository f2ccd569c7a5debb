// tail-launch: breadth-first search in which each level launches the next one; the host launches the first.
//
// Layout   see graph/levels.cuh; one copy of the bitmap; children word64_t [6], see common/children.cuh.
// Mapping  a level is a grid of fixed size, all edges of the frontier in equal parts as in edge-balanced. Its first
//          thread launches the next level as the grid's tail, which runs when the whole grid has ended and sees what it
//          wrote; an empty frontier launches nothing more.
// Wins     over modes in which the host reads a size back after each level, where a trip to the host costs more than a
//          tail launch (17 against 11 us on an H200).
// Loses    against a grid barrier (1 us) and a WHILE node, which decide the same without a launch; and the grid has one
//          size for all levels.
// Pool     a link waits only while its parent runs: two places are enough, however many levels there are.
// Idea     CUDA programming guide, "CUDA dynamic parallelism", tail launches: since CUDA 12 a parent cannot wait for
//          what it launched.
#include "../common/children.cuh"
#include "../graph/levels.cuh"

SPG_KERNEL tail_begin(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr, int* level,
                      unsigned* visited, index_t* queue, offset_t* start, word64_t* tally)
{
    begin_levels(n, *source, row_ptr, nullptr, level, visited, queue, start, tally);
}

SPG_KERNEL tail_level(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                      int* level, unsigned* visited, index_t* queue, offset_t* start, word64_t* tally,
                      unsigned long long* children)
{
    if (tally[k % 3] == 0) return;  // the grid as a whole
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        tally[(k + 2) % 3] = 0;
        SPG_LAUNCH(tail_level, gridDim, blockDim, 0, cudaStreamTailLaunch)(n, k + 1, row_ptr, col, level, visited,
                                                                           queue, start, tally, children);
        count_child(children);
    }
    push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
}
