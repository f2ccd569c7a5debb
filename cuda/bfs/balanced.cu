// balanced: breadth-first search, the frontier split by degree: a thread, a warp, a block or all blocks per vertex.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges; level int32 [n], -1 until found;
//          queues index_t [2][4][n]: level k in queues k % 2, one for each class; sizes int32 [3][4], by k % 3.
// Mapping  a vertex is put into the queue of its class when it is found: up to warp_from - 1 edges a thread, up to
//          block_from - 1 a warp, up to grid_from - 1 a block, beyond that the whole grid. A level is a launch for
//          each class that is not empty.
// Wins     over frontier on uneven degrees: no lane waits for a hub.
// Loses    on many small levels: up to four launches and a read-back for each.
// Idea     the thread/warp/block classes of Merrill, Garland and Grimshaw, PPoPP 2012; the classification at enqueue
//          of Liu and Huang (Enterprise), SC 2015.
#include "../common/spg.cuh"
#include "../common/warp.cuh"

#define SPG_CLASSES 4

struct degree_classes {
    offset_t warp_from, block_from, grid_from;
    __device__ __forceinline__ int of(offset_t degree) const
    {
        return (degree >= warp_from) + (degree >= block_from) + (degree >= grid_from);
    }
};

// Marks `w` and queues it if it is new; one atomic per class and warp. All 32 lanes come together.
__device__ __forceinline__ void claim(bool active, index_t w, index_t n, int k, degree_classes classes,
                                      const offset_t* __restrict__ row_ptr, int* level, index_t* queues, int* sizes)
{
    const int lane = threadIdx.x & 31;
    const bool won = active && load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1;
    if (!__any_sync(SPG_FULL_WARP, won)) return;
    const int mine = won ? classes.of(row_ptr[w + 1] - row_ptr[w]) : -1;
    for (int c = 0; c < SPG_CLASSES; ++c) {
        const unsigned alike = __ballot_sync(SPG_FULL_WARP, mine == c);
        if (!alike) continue;
        int place = 0;
        if (lane == 0) place = atomicAdd(sizes + (k + 1) % 3 * SPG_CLASSES + c, __popc(alike));
        place = __shfl_sync(SPG_FULL_WARP, place, 0);
        if (mine == c)
            queues[((long long)(~k & 1) * SPG_CLASSES + c) * n + place + __popc(alike & ((1u << lane) - 1))] = w;
    }
}

SPG_KERNEL balanced_begin(index_t n, const index_t* __restrict__ source, offset_t warp_from, offset_t block_from,
                          offset_t grid_from, const offset_t* __restrict__ row_ptr, int* level, index_t* queues,
                          int* sizes)
{
    const index_t from = *source;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += (long long)gridDim.x * blockDim.x)
        level[v] = v == from ? 0 : -1;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int i = 0; i < 3 * SPG_CLASSES; ++i) sizes[i] = 0;
        const degree_classes classes{warp_from, block_from, grid_from};
        const int c = classes.of(row_ptr[from + 1] - row_ptr[from]);
        sizes[c] = 1;
        queues[(long long)c * n] = from;
    }
}

// `width` threads work together on one vertex of class `c`: 1, 32, a block, or the grid. The class of threads runs in
// every level, so it also clears the sizes that are not in use.
SPG_KERNEL balanced_level(index_t n, int k, int c, offset_t warp_from, offset_t block_from, offset_t grid_from,
                          const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col, int* level,
                          index_t* queues, int* sizes)
{
    const degree_classes classes{warp_from, block_from, grid_from};
    const int size = sizes[k % 3 * SPG_CLASSES + c];
    const index_t* in = queues + ((long long)(k & 1) * SPG_CLASSES + c) * n;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    if (c == 0) {
        if (blockIdx.x == 0 && threadIdx.x < SPG_CLASSES) sizes[(k + 2) % 3 * SPG_CLASSES + threadIdx.x] = 0;
        for (long long base = thread - (threadIdx.x & 31); base < size; base += threads) {
            const long long i = base + (threadIdx.x & 31);
            offset_t e = 0, end = 0;
            if (i < size) {
                e = row_ptr[in[i]];
                end = row_ptr[in[i] + 1];
            }
            for (; __any_sync(SPG_FULL_WARP, e < end); e += e < end)
                claim(e < end, e < end ? col[e] : 0, n, k, classes, row_ptr, level, queues, sizes);
        }
        return;
    }
    const long long width = c == 1 ? 32 : c == 2 ? blockDim.x : threads;
    const long long inside = thread % width;
    for (long long i = thread / width; i < size; i += threads / width) {
        const long long begin = row_ptr[in[i]], end = row_ptr[in[i] + 1];
        // From each warp's first edge on, so that its lanes stay together.
        for (long long e = begin + inside - (threadIdx.x & 31); e < end; e += width) {
            const long long mine = e + (threadIdx.x & 31);
            claim(mine < end, mine < end ? col[mine] : 0, n, k, classes, row_ptr, level, queues, sizes);
        }
    }
}
