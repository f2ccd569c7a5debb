// push: betweenness from one source, a thread per vertex of each level, forward and back.
//
// Layout   see graph/path_sums.cuh; queue int32 [n]: the levels one after another, here with all vertices found; sizes
//          int32 [3]: level k is counted in sizes[k % 3].
// Mapping  one launch per level forward, after which the host reads how many vertices were found; one per level back,
//          for which it knows where each level is in the queue. Forward a thread adds its count to each successor by
//          an atomic; back it sums its successors' shares, without.
// Wins     on nothing but the length of its source; it looks at each edge twice, whatever the number of levels.
// Loses    on hubs, whose edges one thread walks alone; a read-back per level on many levels.
// Idea     Brandes, J. Math. Sociology 2001; level-synchronous as in Sariyuce and others, GPGPU 2013.
#include "../common/spg.cuh"
#include "../graph/begin.cuh"
#include "../graph/path_sums.cuh"

SPG_KERNEL bc_push_forward(int k, long long first, int size, const offset_t* __restrict__ row_ptr,
                           const index_t* __restrict__ col, int* level, path_sums* paths, int* scale, index_t* queue,
                           int* sizes)
{
    const double factor = forward_factor(scale, k);
    clear_unused(sizes, k);
    if (blockIdx.x == 0 && threadIdx.x == 0) mark_level(scale, k, factor);
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const index_t v = queue[first + i];
    const double given = passed_on(v, k, factor, paths, scale);
    for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e)
        if (lead_to(col[e], k, given, level, paths)) queue[first + size + atomicAdd(sizes + (k + 1) % 3, 1)] = col[e];
}

SPG_KERNEL bc_push_backward(int k, long long first, int size, const offset_t* __restrict__ row_ptr,
                            const index_t* __restrict__ col, const int* __restrict__ level, path_sums* paths,
                            const int* __restrict__ scale, const index_t* __restrict__ queue)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const index_t v = queue[first + i];
    double sum = 0;
    for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e)
        if (level[col[e]] == k + 1) sum += share_of(col[e], paths);
    paths[v].sum = sum * backward_factor(scale, k);
}
