// graph, graph-while: breadth-first search as a CUDA graph of levels that need nothing from the host.
//
// Layout   see graph/levels.cuh; one copy of the bitmap; depth int32 [1]: the level that comes next.
// Mapping  two nodes per level: all edges of the frontier in equal parts (which level it is is in device
//          memory), then one thread that goes on to the next level. `graph` replays a fixed number of levels at a
//          time, and the host looks whether the last one was the end; levels after the end do nothing. In
//          `graph-while` the two nodes are the body of a WHILE node, which graph_advance ends: no host at all.
// Wins     over launches by the host: about half a microsecond for a node.
// Loses    against one cooperative launch: two nodes per level against one barrier.
// Idea     CUDA's graphs (10.0) and conditional nodes (12.4); CUDA programming guide, "CUDA graphs".
#include "../common/spg.cuh"
#include "../graph/levels.cuh"

SPG_KERNEL graph_begin(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr, int* level,
                       unsigned* visited, index_t* queue, offset_t* start, word64_t* tally, int* depth)
{
    begin_levels(n, *source, row_ptr, nullptr, level, visited, queue, start, tally);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        tally[2] = 0;
        *depth = 0;
    }
}

SPG_KERNEL graph_level(index_t n, const int* __restrict__ depth, const offset_t* __restrict__ row_ptr,
                       const index_t* __restrict__ col, int* level, unsigned* visited, index_t* queue, offset_t* start,
                       word64_t* tally)
{
    const int k = *depth;
    if (tally[k % 3] != 0) push_level(n, k, row_ptr, col, level, visited, queue, start, tally);
}

// One thread. `more` is 0 where the node is not in a WHILE node.
SPG_KERNEL graph_advance(word64_t* tally, int* depth, word64_t more)
{
    const int k = *depth;
    tally[k % 3] = 0;  // level k + 3's word
    *depth = k + 1;
#ifndef SPG_HOST
    if (more) cudaGraphSetConditional(more, tally[(k + 1) % 3] != 0);
#else
    (void)more;
#endif
}
