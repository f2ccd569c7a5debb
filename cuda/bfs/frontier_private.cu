// frontier-private: breadth-first search with a queue, gathered per block in shared memory first.
//
// Layout   as in frontier.cu. A block's own queue is dynamic shared memory for `places` vertices, at least blockDim.x.
//          spills int32 [gridDim.x]: how often each block's queue was full, added to; not where it ends.
// Mapping  one launch per level, a thread per vertex of the frontier. All threads of a block walk their edges in
//          rounds. A thread finds one vertex a step at most, so a round takes as many steps as fit into the queue
//          whatever is found: free places / threads that still have edges. In a step a vote tells how many lanes of a
//          warp found a vertex, and one atomic in shared memory takes places for all of them. When not a single step
//          fits, the block reserves its stretch of the global queue by one atomicAdd, copies, coalesced, and its own
//          queue is empty again. What is left in the end goes the same way.
// Wins     over frontier by the number of vertices a block gathers: that many fewer atomics on the one global counter.
//          Larger blocks have larger queues (8 places a thread, unless told otherwise) and reserve less often.
// Loses    where blocks find few vertices: two block barriers a round for nothing; and on hubs, whose thread keeps its
//          block waiting.
// Idea     Luo, Wong and Hwu, DAC 2010; the privatised queue of Kirk and Hwu's book.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"

// The queue of Luo, Wong and Hwu writes what does not fit straight to the global queue, an atomic each. Emptied when
// full, this one stays private however much is found.

// One stretch of the global queue for the block's `held` vertices. All threads of the block call it, after a barrier;
// it ends with one, and the queue is empty.
__device__ __forceinline__ void flush_queue(const index_t* local, int* held, int* stretch, int* found, index_t* out)
{
    const int count = *held;
    __syncthreads();  // all have read it
    if (threadIdx.x == 0) {
        if (count > 0) *stretch = atomicAdd(found, count);
        *held = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[*stretch + i] = local[i];
    __syncthreads();
}

SPG_KERNEL bfs_frontier_private(index_t n, int k, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                int* level, index_t* queue, int* sizes, int places, int* spills)
{
    SPG_DYNAMIC_SHARED(index_t, local);
    SPG_SHARED_VAR(int, held);
    SPG_SHARED_VAR(int, stretch);
    clear_unused(sizes, k);
    const int size = sizes[k % 3];
    if ((long long)blockIdx.x * blockDim.x >= size) return;  // the block as a whole
    const int lane = threadIdx.x & 31;
    const unsigned below = (1u << lane) - 1;
    const index_t* in = queue + (long long)(k & 1) * n;
    index_t* out = queue + (long long)(~k & 1) * n;
    int* found = sizes + (k + 1) % 3;
    int full = 0;
    if (threadIdx.x == 0) held = 0;
    for (long long base = (long long)blockIdx.x * blockDim.x; base < size; base += (long long)gridDim.x * blockDim.x) {
        const long long i = base + threadIdx.x;
        offset_t e = 0, end = 0;
        if (i < size) {
            e = row_ptr[in[i]];
            end = row_ptr[in[i] + 1];
        }
        while (const int active = __syncthreads_count(e < end)) {
            if (places - held < active) {
                flush_queue(local, &held, &stretch, found, out);
                ++full;
            }
            const int steps = (places - held) / active;
            __syncthreads();  // all have read how many are held, before any thread adds to them
            for (int s = 0; s < steps && __any_sync(SPG_FULL_WARP, e < end); ++s) {
                bool won = false;
                index_t w = 0;
                if (e < end) {
                    w = col[e++];
                    // The look before the atomic may be old, never wrong: a level that is set stays set.
                    won = load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1;
                }
                const unsigned winners = __ballot_sync(SPG_FULL_WARP, won);
                if (!winners) continue;
                int at = 0;
                if (lane == 0) at = atomicAdd(&held, __popc(winners));
                at = __shfl_sync(SPG_FULL_WARP, at, 0);
                if (won) local[at + __popc(winners & below)] = w;
            }
        }
    }
    flush_queue(local, &held, &stretch, found, out);
    if (threadIdx.x == 0 && full) spills[blockIdx.x] += full;
}
