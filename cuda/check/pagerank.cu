// pagerank.cu: one more step of PageRank in double, by scattering along out-edges, and what it changes.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]; weight double [nnz], null where all edges weigh the same; rank,
//          jump double [n], jump null where the walk jumps to all vertices alike. largest uint64 [n]: the bits of a
//          row's largest weight; total double [n]: a row's sum of weights over its largest (without weights its edges).
//          got double [n], what edges bring; in_degree int32 [n]. All zero at first. sums double [4]: rank of vertices
//          without a way out; change; rank; rank times roundings.
// Mapping  a thread per vertex, for edges a warp per vertex.
// Order    largest (with weights), totals, loose, edges, change.
#include "faults.cuh"

enum { LOOSE, CHANGE, RANK, TERMS };
enum { GOES_NOWHERE, GOES_TO_ALL, STAYS, JUMPS };

__device__ __forceinline__ double weight_of(const double* weight, const count_t* largest, long long u, long long e)
{
    if (!weight) return 1;
    const double most = __longlong_as_double((long long)largest[u]);
    return most > 0 ? weight[e] / most : 0;
}

SPG_KERNEL check_pagerank_largest(index_t n, const offset_t* row_ptr, const double* weight, count_t* largest)
{
    const long long u = warp_vertex();
    if (u >= n) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32)
        atomicMax(largest + u, (count_t)__double_as_longlong(weight[e] > 0 ? weight[e] : 0));
}

SPG_KERNEL check_pagerank_totals(index_t n, const offset_t* row_ptr, const index_t* col, const double* weight,
                                 const count_t* largest, double* total, int* in_degree)
{
    const long long u = warp_vertex();
    if (u >= n) return;
    double sum = 0;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32) {
        sum += weight_of(weight, largest, u, e);
        atomicAdd(in_degree + col[e], 1);
    }
    if (sum > 0) atomicAdd(total + u, sum);
}

SPG_KERNEL check_pagerank_loose(index_t n, const double* total, const double* rank, double* sums)
{
    const long long v = thread_vertex();
    if (v < n && total[v] == 0) atomicAdd(sums + LOOSE, rank[v]);
}

SPG_KERNEL check_pagerank_edges(index_t n, const offset_t* row_ptr, const index_t* col, const double* weight,
                                const count_t* largest, const double* total, const double* rank, double* got)
{
    const long long u = warp_vertex();
    if (u >= n || total[u] == 0) return;
    const double gives = rank[u] / total[u];
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32)
        atomicAdd(got + col[e], gives * weight_of(weight, largest, u, e));
}

// `got` becomes what the step gives. Each thread takes the vertices one grid apart and adds up what it has at the end.
SPG_KERNEL check_pagerank_change(index_t n, double damping, int dangling, double depth, double roundings,
                                 const double* jump, const double* total, const int* in_degree, const double* rank,
                                 double* got, double* sums)
{
    double change = 0, sum = 0, terms = 0;
    for (long long v = thread_vertex(); v < n; v += (long long)gridDim.x * blockDim.x) {
        const double here = jump ? jump[v] : 1.0 / n;
        double more = got[v];
        if (dangling == GOES_TO_ALL) more += sums[LOOSE] / n;
        if (dangling == JUMPS) more += sums[LOOSE] * here;
        if (dangling == STAYS && total[v] == 0) more += rank[v];
        got[v] = (1 - damping) * here + damping * more;
        change += abs(got[v] - rank[v]);
        sum += rank[v];
        terms += (min((double)in_degree[v], depth) + roundings) * rank[v];
    }
    atomicAdd(sums + CHANGE, change);
    atomicAdd(sums + RANK, sum);
    atomicAdd(sums + TERMS, terms);
}
