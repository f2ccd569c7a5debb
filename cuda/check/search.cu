// search.cu: a plain breadth-first search, one launch per level, that counts shortest paths where it is asked to: what
// answers are held against.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]; level int32 [n], -1 until reached; queue int32 [n], the vertices
//          in the order they are reached in, *tail of them. paths double [n], predecessors int32 [n]: null where only
//          levels are wanted. largest: the bits of the largest count of the level at hand.
// Mapping  check_search_begin: a thread per vertex. check_search_level: a warp per vertex of queue[first, last), which
//          are all at level `depth`; those of its out-edges that reach a vertex put it at the end of the queue.
//          Counts pass on `scale` of themselves, a power of two, so that they stay in range.
#include "faults.cuh"

SPG_KERNEL check_search_begin(index_t n, index_t source, int* level, double* paths, int* predecessors, index_t* queue,
                              index_t* tail)
{
    const long long v = thread_vertex();
    if (v >= n) return;
    level[v] = v == source ? 0 : -1;
    if (paths) {
        paths[v] = v == source ? 1 : 0;
        predecessors[v] = 0;
    }
    if (v == source) {
        queue[0] = source;
        *tail = 1;
    }
}

SPG_KERNEL check_search_level(index_t first, index_t last, const offset_t* row_ptr, const index_t* col, int depth,
                              double scale, int* level, double* paths, int* predecessors, index_t* queue, index_t* tail,
                              count_t* largest)
{
    const long long place = first + warp_vertex();
    if (place >= last) return;
    const index_t u = queue[place];
    const int lane = threadIdx.x & 31;
    const double mine = paths ? paths[u] : 0;
    // Positive numbers are ordered as their bits are.
    if (paths && lane == 0) atomicMax(largest, (count_t)__double_as_longlong(mine));
    for (long long e = row_ptr[u] + lane; e < row_ptr[u + 1]; e += 32) {
        const index_t w = col[e];
        int before = level[w];
        if (before == -1) before = atomicCAS(level + w, -1, depth + 1);
        if (before == -1) queue[atomicAdd(tail, 1)] = w;
        if (paths && (before == -1 || before == depth + 1)) {
            atomicAdd(paths + w, scale * mine);
            atomicAdd(predecessors + w, 1);
        }
    }
}
