// child-launch: breadth-first search, each hub of the frontier expanded by a child grid of its own.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges; level int32 [n], -1 until found;
//          queue index_t [2][n], sizes int32 [3]: frontiers, see graph/begin.cuh; children word64_t [6], see
//          common/children.cuh.
// Mapping  one launch per level, a thread per vertex of the frontier, which walks its edges. A vertex of `hub_from`
//          edges or more is left to a child grid: a thread for every edge up to 64 blocks, launched fire-and-forget. A
//          grid completes when its children have, so the host's look at the next size comes after all of them.
// Wins     over frontier on graphs with hubs: no thread walks thousands of edges.
// Loses    against balanced and edge-balanced, which spread the same edges without a launch for each hub.
// Pool     a vertex enters the queue once, so no more children can wait than there are hubs: that is the bound that the
//          pool of waiting launches is set from.
// Idea     the example that dynamic parallelism is most often shown with; hubs apart: Merrill, Garland and Grimshaw,
//          PPoPP 2012.
#include "../common/children.cuh"
#include "../graph/begin.cuh"

#define SPG_HUB_BLOCK 256
#define SPG_HUB_BLOCKS 64

// Marks `w` and queues it if it is new; one atomic per warp. All 32 lanes come together.
__device__ __forceinline__ void claim(bool active, index_t w, int k, int* level, index_t* out, int* found)
{
    const int lane = threadIdx.x & 31;
    // The look before the atomic may be old, never wrong: a level that is set stays set.
    const bool won = active && load_grid(level + w) == -1 && atomicCAS(level + w, -1, k + 1) == -1;
    const unsigned winners = __ballot_sync(SPG_FULL_WARP, won);
    if (!winners) return;
    int place = 0;
    if (lane == 0) place = atomicAdd(found, __popc(winners));
    place = __shfl_sync(SPG_FULL_WARP, place, 0);
    if (won) out[place + __popc(winners & ((1u << lane) - 1))] = w;
}

// A child: the edges [begin, end) of one vertex of level k.
SPG_KERNEL expand_hub(offset_t begin, offset_t end, int k, const index_t* __restrict__ col, int* level, index_t* out,
                      int* found)
{
    const int lane = threadIdx.x & 31;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)begin + (long long)blockIdx.x * blockDim.x + threadIdx.x - lane;
    for (long long e = first; e < end; e += threads) {
        const long long mine = e + lane;
        claim(mine < end, mine < end ? col[mine] : 0, k, level, out, found);
    }
}

SPG_KERNEL child_launch_level(index_t n, int k, offset_t hub_from, const offset_t* __restrict__ row_ptr,
                              const index_t* __restrict__ col, int* level, index_t* queue, int* sizes,
                              unsigned long long* children)
{
    clear_unused(sizes, k);
    const int lane = threadIdx.x & 31, size = sizes[k % 3];
    const index_t* in = queue + (long long)(k & 1) * n;
    index_t* out = queue + (long long)(~k & 1) * n;
    int* found = sizes + (k + 1) % 3;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long base = (long long)blockIdx.x * blockDim.x + threadIdx.x - lane; base < size; base += threads) {
        offset_t e = 0, end = 0;
        if (base + lane < size) {
            const index_t v = in[base + lane];
            e = row_ptr[v];
            end = row_ptr[v + 1];
            if (end - e >= hub_from) {
                const long long blocks = ((long long)(end - e) + SPG_HUB_BLOCK - 1) / SPG_HUB_BLOCK;
                SPG_LAUNCH(expand_hub, (unsigned)min((long long)SPG_HUB_BLOCKS, blocks), SPG_HUB_BLOCK, 0,
                           cudaStreamFireAndForget)(e, end, k, col, level, out, found);
                count_child(children);
                e = end;
            }
        }
        for (; __any_sync(SPG_FULL_WARP, e < end); e += e < end)
            claim(e < end, e < end ? col[e] : 0, k, level, out, found);
    }
}
