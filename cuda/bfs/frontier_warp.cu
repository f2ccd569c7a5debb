// frontier-warp: breadth-first search with a queue, places reserved a warp at a time.
//
// Layout   as in frontier.cu.
// Mapping  one launch per level, a thread per vertex of the frontier; the lanes of a warp walk their edges side by
//          side. After each step a vote tells how many lanes found a vertex; one atomicAdd reserves that many places,
//          and lane i writes at the number of finders below it: coalesced.
// Wins     over frontier by up to 32 times fewer atomics, without shared memory or block barriers.
// Loses    where degrees in a warp differ: all 32 lanes stay until the longest list ends.
// Idea     Merrill, Garland and Grimshaw, PPoPP 2012 (prefix sums instead of atomics, here per warp).
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

SPG_KERNEL bfs_frontier_warp(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                             int* level, index_t* queue, int* sizes)
{
    clear_unused(sizes, k);
    const int size = sizes[k % 3];
    const unsigned below = (1u << (threadIdx.x & 31)) - 1;
    const index_t* in = queue + (long long)(k & 1) * n;
    index_t* out = queue + (long long)(~k & 1) * n;
    int* found = sizes + (k + 1) % 3;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x - (threadIdx.x & 31);
    for (long long base = first; base < size; base += (long long)gridDim.x * blockDim.x) {
        const long long i = base + (threadIdx.x & 31);
        offset_t e = 0, end = 0;
        if (i < size) {
            e = row_ptr[in[i]];
            end = row_ptr[in[i] + 1];
        }
        while (__any_sync(SPG_FULL_WARP, e < end)) {
            bool won = false;
            index_t w = 0;
            if (e < end) {
                w = col[e++];
                won = load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1;
            }
            const unsigned winners = __ballot_sync(SPG_FULL_WARP, won);
            if (!winners) continue;
            int place = 0;
            if ((threadIdx.x & 31) == 0) place = atomicAdd(found, __popc(winners));
            place = __shfl_sync(SPG_FULL_WARP, place, 0);
            if (won) out[place + __popc(winners & below)] = w;
        }
    }
}
