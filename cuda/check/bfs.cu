// bfs.cu: whether levels, and parents if there are any, are those of a breadth-first search. Rules are numbered as in
// spgraph_bench/validate/bfs.py, which says why they suffice.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges; level, parent int32 [n], -1 where nothing was reached;
//          parent null where only levels are checked. supported, adopted bytes [n], 0 at first: an edge leads to the
//          vertex from the level above, and one from its parent. counts uint64 [rules], least int32 [rules].
// Mapping  check_bfs_edges: a warp per vertex; the others: a thread per vertex. In this order: vertices, edges,
//          support.
// Races    Marks are only ever set to 1.
#include "faults.cuh"

enum { SOURCE, RANGE, ANOTHER, MISSED, STEEP, UNSUPPORTED, ROOT, STRAY, SPAN, NO_EDGE };

// The level, or -1 where it is none.
__device__ __forceinline__ int level_of(int level, index_t n) { return level >= 0 && level < n ? level : -1; }

SPG_KERNEL check_bfs_vertices(index_t n, index_t source, const int* level, const index_t* parent, count_t* counts,
                              index_t* least)
{
    const long long v = thread_vertex();
    if (v >= n) return;
    const int mine = level_of(level[v], n);
    if (level[v] < -1 || level[v] >= n) fault(counts, least, RANGE, (index_t)v);
    if (v == source && mine != 0) fault(counts, least, SOURCE, (index_t)v);
    if (v != source && mine == 0) fault(counts, least, ANOTHER, (index_t)v);
    if (!parent) return;
    const index_t p = parent[v];
    const bool is_vertex = p >= 0 && p < n;
    if (v == source) {
        if (p != source) fault(counts, least, ROOT, (index_t)v);
    } else if (mine < 0 ? p != -1 : !is_vertex) {
        fault(counts, least, STRAY, (index_t)v);
    } else if (mine >= 0 && level_of(level[p], n) != mine - 1) {
        fault(counts, least, SPAN, (index_t)v);
    }
}

SPG_KERNEL check_bfs_edges(index_t n, const offset_t* row_ptr, const index_t* col, const int* level,
                           const index_t* parent, unsigned char* supported, unsigned char* adopted, count_t* counts,
                           index_t* least)
{
    const long long u = warp_vertex();
    if (u >= n) return;
    const int mine = level_of(level[u], n);
    if (mine < 0) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32) {
        const index_t v = col[e];
        const int theirs = level_of(level[v], n);
        if (theirs < 0) fault(counts, least, MISSED, v);
        if (theirs > mine + 1) fault(counts, least, STEEP, v);
        if (theirs == mine + 1) supported[v] = 1;
        if (parent && parent[v] == u) adopted[v] = 1;
    }
}

SPG_KERNEL check_bfs_support(index_t n, index_t source, const int* level, const index_t* parent,
                             const unsigned char* supported, const unsigned char* adopted, count_t* counts,
                             index_t* least)
{
    const long long v = thread_vertex();
    if (v >= n || v == source) return;
    const int mine = level_of(level[v], n);
    if (mine > 0 && !supported[v]) fault(counts, least, UNSUPPORTED, (index_t)v);
    if (parent && mine >= 0 && parent[v] >= 0 && parent[v] < n && !adopted[v])
        fault(counts, least, NO_EDGE, (index_t)v);
}
