// frontier: breadth-first search with a queue of the vertices found in the level before, one global counter.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges; level int32 [n], -1 until found;
//          queue index_t [2][n]: level k is read from queue k % 2, level k + 1 written to the other;
//          sizes int32 [3]: how many each holds, see graph/begin.cuh.
// Mapping  one launch per level, a thread per vertex of the frontier. atomicCAS on the level lets one finder win;
//          the winner takes its place by an atomicAdd on the counter.
// Wins     over push where frontiers are small: no work for vertices outside.
// Loses    on large frontiers: every vertex found is an atomic on the same word. That is what this mode shows;
//          frontier-private and frontier-warp are the two remedies.
// Idea     Luo, Wong and Hwu, DAC 2010.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

SPG_KERNEL bfs_frontier(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                        int* level, index_t* queue, int* sizes)
{
    clear_unused(sizes, k);
    const int size = sizes[k % 3];
    const index_t* in = queue + (long long)(k & 1) * n;
    index_t* out = queue + (long long)(~k & 1) * n;
    int* found = sizes + (k + 1) % 3;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size;
         i += (long long)gridDim.x * blockDim.x) {
        const index_t v = in[i];
        for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const index_t w = col[e];
            // The look before the atomic may be old, never wrong: a level that is set stays set.
            if (load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1) out[atomicAdd(found, 1)] = w;
        }
    }
}
