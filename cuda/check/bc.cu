// bc.cu: whether dependencies obey the equation that defines them, given levels and counts of shortest paths from
// search.cu. Rules are numbered as in spgraph_bench/validate/bc.py, which says why they suffice.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]; level, predecessors int32 [n], paths double [n]: see search.cu;
//          scale double [levels]: what of its counts a level passed on. most int32 [levels]: the most predecessors of a
//          vertex of each level. dependency double [n], the answer; right double [n], what the equation makes of it, 0
//          at first; successors int32 [1], the most of a vertex. counts uint64 [rules], least int32 [rules]. sums
//          double [1] and pairs uint64 [1]: of dependencies, and of levels less one. arcs uint64 [1]: edges out of
//          reached vertices, without loops.
// Mapping  a thread per vertex, for edges a warp per vertex.
#include "faults.cuh"

enum { NUMBER, OUTSIDE, EQUATION };

SPG_KERNEL check_bc_predecessors(index_t n, const int* level, const int* predecessors, int* most)
{
    const long long v = thread_vertex();
    if (v < n && level[v] > 0) atomicMax(most + level[v], predecessors[v]);
}

SPG_KERNEL check_bc_edges(index_t n, const offset_t* row_ptr, const index_t* col, const int* level, const double* paths,
                          const double* scale, const double* dependency, double* right, int* successors, count_t* arcs)
{
    const long long v = warp_vertex();
    if (v >= n || level[v] < 0) return;
    double sum = 0;
    int count = 0, proper = 0;
    for (long long e = row_ptr[v] + (threadIdx.x & 31); e < row_ptr[v + 1]; e += 32) {
        const index_t w = col[e];
        proper += w != v;
        if (level[w] != level[v] + 1) continue;
        sum += scale[level[v]] * paths[v] / paths[w] * (1 + dependency[w]);
        ++count;
    }
    if (proper) atomicAdd(arcs, (count_t)proper);
    if (count) {
        atomicAdd(right + v, sum);
        atomicMax(successors, 32 * count);
    }
}

SPG_KERNEL check_bc_vertices(index_t n, index_t source, const int* level, const double* dependency, const double* right,
                             double tolerance, count_t* counts, index_t* least, double* sums, count_t* pairs)
{
    double sum = 0;
    count_t below = 0;
    for (long long v = thread_vertex(); v < n; v += (long long)gridDim.x * blockDim.x) {
        const double mine = dependency[v];
        const bool inside = level[v] > 0;
        if (!(mine >= 0 && isfinite(mine)))
            fault(counts, least, NUMBER, (index_t)v);
        else if (!inside && mine != 0)
            fault(counts, least, OUTSIDE, (index_t)v);
        else if (inside && !(abs(mine - right[v]) <= tolerance * right[v]))
            fault(counts, least, EQUATION, (index_t)v);
        sum += mine;
        if (inside) below += (count_t)(level[v] - 1);
    }
    atomicAdd(sums, sum);
    if (below) atomicAdd(pairs, below);
}
