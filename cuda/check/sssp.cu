// sssp.cu: whether lengths are those of shortest paths. Rules are numbered as in spgraph_bench/validate/sssp.py, which
// says why they suffice.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz], weight value_t [nnz], null where all edges weigh 1; length
//          SPG_LENGTH [n]: int or float, as the weights, or double. limit: the longest one that is kept, if limited.
//          grounded int32 [n], 0 at first: edges that are as long as they say lead from the source to the vertex. queue
//          int32 [n] of vertices that were grounded in the last round, *tail of them. counts uint64 [rules], least
//          int32 [rules].
// Mapping  check_sssp_edges and check_sssp_spread: a warp per vertex; the others: a thread per vertex.
// Order    vertices, edges; as long as check_sssp_ungrounded counts any: spread, from all vertices and then from those
//          of the queue, until it adds none; then check_sssp_ungrounded with rules.
// Races    Grounded is only ever set to 1; a vertex that is seen too late is in the queue, for the next round.
#include "faults.cuh"

#ifndef SPG_LENGTH
#error "the validator defines SPG_LENGTH"
#endif
typedef SPG_LENGTH length_t;

enum { SOURCE, RANGE, MISSED, TOO_LONG, SHORTENS, GROUNDLESS };

__device__ __forceinline__ bool is_length(int x) { return x >= 0 && x < 0x7fffffff; }
__device__ __forceinline__ bool is_length(long long x) { return x >= 0 && x < 0x7fffffff; }
__device__ __forceinline__ bool is_length(float x) { return x >= 0 && x <= 3.402823466e38f; }
__device__ __forceinline__ bool is_length(double x) { return x >= 0 && x <= 1.7976931348623157e308; }
__device__ __forceinline__ bool is_unreached(int x) { return x == 0x7fffffff; }
__device__ __forceinline__ bool is_unreached(float x) { return x > 3.402823466e38f; }
__device__ __forceinline__ bool is_unreached(double x) { return x > 1.7976931348623157e308; }
// Sums that are too long are not lengths.
__device__ __forceinline__ long long plus(int length, int weight) { return (long long)length + weight; }
__device__ __forceinline__ float plus(float length, float weight) { return __fadd_rn(length, weight); }
__device__ __forceinline__ double plus(double length, double weight) { return __dadd_rn(length, weight); }

SPG_KERNEL check_sssp_vertices(index_t n, index_t source, int limited, length_t limit, const length_t* length,
                               int* grounded, count_t* counts, index_t* least)
{
    const long long v = thread_vertex();
    if (v >= n) return;
    if (!is_length(length[v]) && !is_unreached(length[v])) fault(counts, least, RANGE, (index_t)v);
    if (limited && is_length(length[v]) && length[v] > limit) fault(counts, least, RANGE, (index_t)v);
    if (v == source) {
        if (length[v] != 0) fault(counts, least, SOURCE, (index_t)v);
        grounded[v] = 1;
    }
}

SPG_KERNEL check_sssp_edges(index_t n, int limited, length_t limit, const offset_t* row_ptr, const index_t* col,
                            const value_t* weight, const length_t* length, int* grounded, count_t* counts,
                            index_t* least)
{
    const long long u = warp_vertex();
    if (u >= n || !is_length(length[u])) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32) {
        const index_t v = col[e];
        const auto there = plus(length[u], (length_t)(weight ? weight[e] : 1));
        if (!is_length(there)) {
            if (!limited && !is_length(length[v])) fault(counts, least, TOO_LONG, v);
        } else if (!is_length(length[v])) {
            if (!limited || there <= limit) fault(counts, least, MISSED, v);
        } else if (there < length[v]) {
            fault(counts, least, SHORTENS, v);
        } else if (there == length[v] && length[u] < length[v]) {
            grounded[v] = 1;
        }
    }
}

SPG_KERNEL check_sssp_ungrounded(index_t n, const length_t* length, const int* grounded, count_t* ungrounded,
                                 count_t* counts, index_t* least)
{
    const long long v = thread_vertex();
    if (v >= n || !is_length(length[v]) || grounded[v]) return;
    if (counts)
        fault(counts, least, GROUNDLESS, (index_t)v);
    else
        atomicAdd(ungrounded, (count_t)1);
}

// From queue[first, last), or from all of `last` vertices where `all`.
SPG_KERNEL check_sssp_spread(int all, index_t first, index_t last, const offset_t* row_ptr, const index_t* col,
                             const value_t* weight, const length_t* length, int* grounded, index_t* queue,
                             index_t* tail)
{
    const long long place = first + warp_vertex();
    if (place >= last) return;
    const index_t u = all ? (index_t)place : queue[place];
    if (!grounded[u] || !is_length(length[u])) return;
    for (long long e = row_ptr[u] + (threadIdx.x & 31); e < row_ptr[u + 1]; e += 32) {
        const index_t v = col[e];
        if (plus(length[u], (length_t)(weight ? weight[e] : 1)) != length[v] || !is_length(length[v])) continue;
        if (atomicExch(grounded + v, 1) == 0) queue[atomicAdd(tail, 1)] = v;
    }
}
