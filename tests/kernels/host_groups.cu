// Cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "common/spg.cuh"

namespace cg = cooperative_groups;

// Doubles x `rounds` times, each round reading what another block wrote.
SPG_KERNEL grid_rounds(int n, int rounds, int* x, int* y)
{
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < rounds; ++r) {
        for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[n - 1 - i] + 1;
        grid.sync();
        for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] = y[i];
        grid.sync();
    }
}

SPG_KERNEL tiles(const int* x, int* out)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    const int t = block.thread_rank(), n = block.size();
    out[t] = cg::reduce(tile, x[t], cg::plus<int>());
    out[n + t] = tile.shfl_down(x[t], 1);
    out[2 * n + t] = tile.shfl(x[t], 2) + 1000 * tile.meta_group_rank() + 100000 * tile.thread_rank();
    out[3 * n + t] = tile.ballot(x[t] % 2);
    block.sync();
    cg::sync(tile);
    int sum = x[t];
    for (int d = tile.size() / 2; d; d /= 2) sum += tile.shfl_xor(sum, d);
    out[4 * n + t] = sum;
    out[5 * n + t] = cg::reduce(tile, x[t], cg::greater<int>());
}

// A queue with one reservation for all lanes that arrive together.
SPG_KERNEL compact(int n, const int* x, int* out, int* count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 3 == 0) {
        cg::coalesced_group here = cg::coalesced_threads();
        int first = 0;
        if (here.thread_rank() == 0) first = atomicAdd(count, (int)here.size());
        out[here.shfl(first, 0) + here.thread_rank()] = x[i];
    }
}
