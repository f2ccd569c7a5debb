// pull: breadth-first search, a thread per unvisited vertex in every level; it looks for a parent at level k.
//
// Layout   col_ptr offset_t [n + 1], row int32 [nnz]: in-edges (of a directed graph these are not its out-edges);
//          level int32 [n], -1 until found; sizes int32 [3]: see graph/begin.cuh.
// Mapping  one launch per level; thread v, if v is unvisited, walks v's in-edges to the first one from level k.
// Wins     where the frontier is a large part of the graph: most vertices find a parent after one or two looks.
// Loses    where it is small: every unvisited vertex looks at all its in-edges, in every level, and finds no parent.
// Idea     Beamer, Asanovic and Patterson, SC 2012.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

// Race: a neighbour's level may turn from -1 to k + 1 while it is read; neither is k. Each word has one writer.
SPG_KERNEL bfs_pull(index_t n, int k, const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row, int* level,
                    int* sizes)
{
    clear_unused(sizes, k);
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || load_grid(level + v) != -1) return;
    for (offset_t e = col_ptr[v]; e < col_ptr[v + 1]; ++e) {
        if (load_grid(level + row[e]) == k) {
            store_grid(level + v, k + 1);
            store_grid(sizes + (k + 1) % 3, 1);
            return;
        }
    }
}
