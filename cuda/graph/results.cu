// results.cu: what comes after the levels, the same for all modes.
//
// restore        levels (or lengths: value_t) of relabelled vertices back to the vertices of the input:
//                out[v] = level[new_id[v]].
// parents_rows   a parent for every vertex found, by rows: u's edge to w at the next level makes u a parent of w.
//                Many u may qualify and each writes itself: any of them is right, so the race is benign; the writes
//                are relaxed.
// parents_edges  the same by edges.
// parents_begin  -1 for all but the source, which is its own parent.
//
// Layout   level int32 [n], -1 where nothing was found; restore: level and out value_t [n], int32 or lengths; parent
//          int32 [n], by the ids of the input, -1 likewise; old_id, new_id int32 [n], inverse to each other, null where
//          vertices were not relabelled. Rows: row_ptr offset_t [n + 1], col int32 [nnz]; edges: row, col int32 [nnz].
// Mapping  a thread per vertex; parents_rows: a warp per vertex; parents_edges: a thread per edge.
#include "../common/spg.cuh"
#include "../common/ordered.cuh"

SPG_KERNEL restore(index_t n, const index_t* __restrict__ new_id, const value_t* __restrict__ level,
                   value_t* __restrict__ out)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) out[v] = level[new_id[v]];
}

SPG_KERNEL parents_begin(index_t n, const index_t* __restrict__ source, const index_t* __restrict__ old_id, int* parent)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const index_t from = old_id ? old_id[*source] : *source;
    if (v < n) parent[v] = v == from ? from : -1;
}

__device__ __forceinline__ void adopt(index_t u, index_t w, const int* __restrict__ level,
                                      const index_t* __restrict__ old_id, int* parent)
{
    if (level[w] == level[u] + 1) store_grid(parent + (old_id ? old_id[w] : w), old_id ? old_id[u] : u);
}

SPG_KERNEL parents_rows(index_t n, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                        const int* __restrict__ level, const index_t* __restrict__ old_id, int* parent)
{
    const long long u = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (u >= n || level[u] < 0) return;
    for (offset_t e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32)
        adopt((index_t)u, col[e], level, old_id, parent);
}

SPG_KERNEL parents_edges(offset_t nnz, const index_t* __restrict__ row, const index_t* __restrict__ col,
                         const int* __restrict__ level, const index_t* __restrict__ old_id, int* parent)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < nnz && level[row[e]] >= 0) adopt(row[e], col[e], level, old_id, parent);
}
