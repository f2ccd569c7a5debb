// hook: connected components by hooking roots and shortening all paths, in turn.
//
// Layout   row, col int32 [nnz]: source and target of each edge; parent int32 [n]: see graph/forest.cuh; in the end
//          the least id of each component. changed int32 [3]: as in label.cu. Directions do not count.
//          stamps: two steps per round, codes 0 hooking and 1 shortening, see graph/stamps.cuh; the code -1 ends them.
// Mapping  one cooperative launch. A round is a thread per edge, which hooks the larger of its ends' parents beneath
//          the smaller if that is a root, and then a thread per vertex, which moves it up to its root; a grid barrier
//          after each of both. All trees are flat between rounds.
// Wins     over label on long paths: the number of trees falls by half or more in a round, whatever their shape.
// Loses    every round looks at every edge, though most of them have found their component after the first.
// Idea     Shiloach and Vishkin, J. Algorithms 1982; for GPUs Soman, Kishore and Narayanan, IPDPS Workshops 2010.
#include "../common/spg.cuh"
#include "../common/ordered.cuh"
#include "../graph/forest.cuh"
#include "../graph/stamps.cuh"

// Race: many threads may want to hook the same root. atomicMin keeps the least; the others' edges still lead from one
// tree to another, and are hooked in a later round. Who sees `high` as a root that is hooked by now may lower its
// parent further, which parts it from the tree it was in; the edge that joined those two is found again, too. Nothing
// changes in a round only where no edge leads from one tree to another.
SPG_KERNEL __launch_bounds__(1024, 1)
    cc_hook(index_t n, offset_t nnz, const index_t* __restrict__ row, const index_t* __restrict__ col, index_t* parent,
            int* changed, unsigned* barrier, long long* stamps, int watched)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = thread; v < n; v += threads) parent[v] = (index_t)v;
    if (thread == 0) changed[0] = 0;
    grid_barrier(barrier);
    for (int k = 0;; ++k) {
        const int round = k % 3;
        if (thread == 0) {
            changed[(round + 1) % 3] = 0;
            stamp(stamps, watched, 2 * k, 0);
        }
        bool any = false;
        for (long long e = thread; e < nnz; e += threads) {
            const index_t a = load_grid(parent + row[e]), b = load_grid(parent + col[e]);
            if (a == b) continue;
            const index_t high = max(a, b);
            if (load_grid(parent + high) == high) atomicMin(parent + high, min(a, b));
            any = true;
        }
        if (any) store_grid(changed + round, 1);
        grid_barrier(barrier);
        if (thread == 0) stamp(stamps, watched, 2 * k + 1, changed[round] == 0 ? -1 : 1);
        if (changed[round] == 0) break;
        for (long long v = thread; v < n; v += threads) flatten((index_t)v, parent);
        grid_barrier(barrier);
    }
}
