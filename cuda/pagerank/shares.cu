// shares: once per graph, the part of its rank that each vertex gives along an edge: 1 / out-degree, 0 without
// out-edges.
//
// Layout   share value_t [n]. From rows: row_ptr offset_t [n + 1]. From edges: row int32 [m], the sources; degree
//          unsigned [n], 0 at first.
// Mapping  a thread per vertex; count_edges: a thread per edge and an atomic.
#include "../common/spg.cuh"

SPG_KERNEL shares_of_rows(index_t n, const offset_t* __restrict__ row_ptr, value_t* __restrict__ share)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    const offset_t degree = row_ptr[v + 1] - row_ptr[v];
    share[v] = degree ? (value_t)(1.0 / (double)degree) : 0;
}

SPG_KERNEL count_edges(offset_t m, const index_t* __restrict__ row, unsigned* degree)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < m) atomicAdd(degree + row[e], 1u);
}

SPG_KERNEL shares_of_degrees(index_t n, const unsigned* __restrict__ degree, value_t* __restrict__ share)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) share[v] = degree[v] ? (value_t)(1.0 / (double)degree[v]) : 0;
}
