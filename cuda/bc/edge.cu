// edge: betweenness from one source, a thread per edge in every level, forward and back.
//
// Layout   see graph/path_sums.cuh; row, col int32 [nnz]: source and target of each edge; sizes int32 [3]: not 0 where
//          a level found something.
// Mapping  one launch per level, each looks at all edges. Forward the edges from level k to level k + 1 add counts,
//          back they add shares, both by atomics.
// Wins     on few levels and very uneven degrees: all threads do the same, reads of row and col are coalesced.
// Loses    on many levels: all edges are looked at twice in each.
// Idea     Jia and others, "Edge v. node parallelism for graph centrality metrics", GPU Computing Gems 2011.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"
#include "../graph/path_sums.cuh"

// Race: all who find w in this level write the same level k + 1, and each adds its own count, in any order.
SPG_KERNEL bc_edge_forward(offset_t nnz, int k, const index_t* __restrict__ row, const index_t* __restrict__ col,
                           int* level, path_sums* paths, int* scale, int* sizes)
{
    const double factor = forward_factor(scale, k);
    clear_unused(sizes, k);
    if (blockIdx.x == 0 && threadIdx.x == 0) mark_level(scale, k, factor);
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= nnz || load_grid(level + row[e]) != k) return;
    const index_t w = col[e];
    const int there = load_grid(level + w);
    if (there != -1 && there != k + 1) return;
    if (there == -1) {
        store_grid(level + w, k + 1);
        store_grid(sizes + (k + 1) % 3, 1);
    }
    atomicAdd(&paths[w].count, passed_on(row[e], k, factor, paths, scale));
}

SPG_KERNEL bc_edge_backward(offset_t nnz, int k, const index_t* __restrict__ row, const index_t* __restrict__ col,
                            const int* __restrict__ level, path_sums* paths, const int* __restrict__ scale)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= nnz || level[row[e]] != k || level[col[e]] != k + 1) return;
    atomicAdd(&paths[row[e]].sum, share_of(col[e], paths) * backward_factor(scale, k));
}
