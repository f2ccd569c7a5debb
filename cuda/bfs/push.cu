// push: breadth-first search, a thread per vertex in every level; those at level k write k + 1 to their neighbours.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges; level int32 [n], -1 until found;
//          sizes int32 [3]: see graph/begin.cuh; nonzero where a level found something.
// Mapping  one launch per level; thread v looks at level[v] and, if it is k, at all of v's edges.
// Wins     on nothing but the length of its source: no queue, no atomics.
// Loses    on many levels (n threads for each, however small the frontier) and on hubs (a thread walks a hub alone).
// Idea     Harish and Narayanan, HiPC 2007.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

// Race: several threads may find the same neighbour unvisited, and all write the same value k + 1 to it; none
// writes anything else in this level. So the last write changes nothing. Relaxed accesses, because others read
// and write the word at the same time: a thread of this launch may read -1 or k + 1, and neither is k.
SPG_KERNEL bfs_push(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col, int* level,
                    int* sizes)
{
    clear_unused(sizes, k);
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || load_grid(level + v) != k) return;
    bool any = false;
    for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
        const index_t w = col[e];
        if (load_grid(level + w) == -1) {
            store_grid(level + w, k + 1);
            any = true;
        }
    }
    if (any) store_grid(sizes + (k + 1) % 3, 1);
}
