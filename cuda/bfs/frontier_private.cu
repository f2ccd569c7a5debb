// frontier-private: breadth-first search with a queue, gathered per block in shared memory first.
//
// Layout   as in frontier.cu; a block's own queue holds SPG_PRIVATE vertices.
// Mapping  one launch per level, a thread per vertex of the frontier. A vertex found goes to the block's own queue
//          (an atomic in shared memory). In the end the block reserves its stretch of the global queue by one
//          atomicAdd and copies, coalesced.
// Wins     over frontier by the number of vertices a block finds: that many fewer atomics on the one global counter.
// Loses    where blocks find few vertices: two block barriers for nothing.
// Overflow A block can find more than fit (one hub is enough). What does not fit goes to the global queue at once,
//          as in frontier.cu: no vertex is lost, only the saving is.
// Idea     Luo, Wong and Hwu, DAC 2010; the privatised queue of Kirk and Hwu's book.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

#define SPG_PRIVATE 1024

SPG_KERNEL bfs_frontier_private(index_t n, int k, const offset_t* __restrict__ row_ptr,
                                const index_t* __restrict__ col, int* level, index_t* queue, int* sizes)
{
    SPG_SHARED(index_t, local, SPG_PRIVATE);
    SPG_SHARED_VAR(int, local_size);
    SPG_SHARED_VAR(int, stretch);
    clear_unused(sizes, k);
    const int size = sizes[k % 3];
    if ((long long)blockIdx.x * blockDim.x >= size) return;  // the block as a whole
    if (threadIdx.x == 0) local_size = 0;
    __syncthreads();
    const index_t* in = queue + (long long)(k & 1) * n;
    index_t* out = queue + (long long)(~k & 1) * n;
    int* found = sizes + (k + 1) % 3;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size;
         i += (long long)gridDim.x * blockDim.x) {
        const index_t v = in[i];
        for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const index_t w = col[e];
            if (load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1) {
                const int at = atomicAdd(&local_size, 1);
                if (at < SPG_PRIVATE)
                    local[at] = w;
                else
                    out[atomicAdd(found, 1)] = w;
            }
        }
    }
    __syncthreads();
    const int kept = min(local_size, SPG_PRIVATE);
    if (threadIdx.x == 0 && kept > 0) stretch = atomicAdd(found, kept);
    __syncthreads();
    for (int i = threadIdx.x; i < kept; i += blockDim.x) out[stretch + i] = local[i];
}
