// cc.cu: whether labels are those of connected components, and how many components there are. Rules are numbered as in
// spgraph_bench/validate/cc.py, which says why they suffice.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]; label, parent int32 [n]; counts uint64 [rules], least int32
//          [rules]; found uint64 [1]: how many vertices are their own label, or their own parent.
// Mapping  a thread per vertex, for edges a warp per vertex.
// Idea     check_cc_join is the union of disjoint sets: the larger root gets the smaller one as its parent. Paths are
//          halved on the way (Tarjan and van Leeuwen, 1984), by writes of vertices further up, so races do no harm.
#include "faults.cuh"

enum { RANGE, ABOVE, UNNAMED, PARTED };

SPG_KERNEL check_cc_vertices(index_t n, const index_t* label, count_t* found, count_t* counts, index_t* least)
{
    const long long v = thread_vertex();
    if (v >= n) return;
    const index_t mine = label[v];
    if (mine == v) atomicAdd(found, (count_t)1);
    if (mine < 0 || mine >= n)
        fault(counts, least, RANGE, (index_t)v);
    else if (mine > v)
        fault(counts, least, ABOVE, (index_t)v);
    else if (label[mine] != mine)
        fault(counts, least, UNNAMED, (index_t)v);
}

SPG_KERNEL check_cc_edges(index_t n, const offset_t* row_ptr, const index_t* col, const index_t* label, count_t* counts,
                          index_t* least)
{
    const long long u = warp_vertex();
    if (u >= n) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32)
        if (label[col[e]] != label[u]) fault(counts, least, PARTED, col[e]);
}

SPG_KERNEL check_cc_begin(index_t n, index_t* parent)
{
    const long long v = thread_vertex();
    if (v < n) parent[v] = (index_t)v;
}

__device__ __forceinline__ index_t root_of(volatile index_t* parent, index_t v)
{
    index_t p = parent[v];
    while (p != v) {
        const index_t above = parent[p];
        if (above != p) parent[v] = above;
        v = p;
        p = above;
    }
    return v;
}

SPG_KERNEL check_cc_join(index_t n, const offset_t* row_ptr, const index_t* col, index_t* parent)
{
    const long long u = warp_vertex();
    if (u >= n) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32) {
        index_t a = root_of(parent, (index_t)u), b = root_of(parent, col[e]);
        while (a != b) {
            const index_t larger = max(a, b), smaller = min(a, b);
            if (atomicCAS(parent + larger, larger, smaller) == larger) break;
            a = root_of(parent, larger);
            b = root_of(parent, smaller);
        }
    }
}

SPG_KERNEL check_cc_roots(index_t n, const index_t* parent, count_t* found)
{
    const long long v = thread_vertex();
    if (v < n && parent[v] == v) atomicAdd(found, (count_t)1);
}
