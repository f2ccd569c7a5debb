// edge: breadth-first search, a thread per edge in every level.
//
// Layout   row, col int32 [nnz]: source and target of each edge, sorted by row; level int32 [n], -1 until found;
//          sizes int32 [3]: see graph/begin.cuh.
// Mapping  one launch per level; thread e looks whether its edge leads from level k to an unvisited vertex.
// Wins     on few levels and very uneven degrees: all threads do the same work, reads of row and col are coalesced.
// Loses    on many levels: every edge is looked at in each of them.
// Idea     Jia and others, "Edge v. node parallelism for graph centrality metrics", GPU Computing Gems 2011.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

// Race: as in push.cu, all writers of a word write the same value, and readers take -1 and k + 1 alike.
SPG_KERNEL bfs_edge(offset_t nnz, int k, const index_t* __restrict__ row, const index_t* __restrict__ col, int* level,
                    int* sizes)
{
    clear_unused(sizes, k);
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= nnz || load_grid(level + row[e]) != k) return;
    const index_t w = col[e];
    if (load_grid(level + w) == -1) {
        store_grid(level + w, k + 1);
        store_grid(sizes + (k + 1) % 3, 1);
    }
}
