// label: connected components by propagating the least label along edges, until nothing changes.
//
// Layout   row, col int32 [nnz]: source and target of each edge; label int32 [n]: first each vertex's own id, in the
//          end the least id of its component. Directions do not count: an edge lowers the label at either end.
//          changed int32 [3]: used in turn; round r writes changed[r % 3], and clears the one after it.
//          stamps: a step per round, see graph/stamps.cuh; the code -1 ends them.
// Mapping  one cooperative launch, a thread per edge in each round, a grid barrier between rounds; no host in between.
//          Labels are lowered in place, so what one thread lowers others may pass on in the same round.
// Wins     on nothing but the length of its source, and on graphs whose components are a few edges wide.
// Loses    on long paths: a label moves some edges per round, and every round looks at every edge.
// Idea     the textbook's label propagation (hash-min); Yan and others, VLDB 2014.
#include "../common/spg.cuh"
#include "../graph/stamps.cuh"
#include "../common/ordered.cuh"

// Race: labels only fall, and atomicMin lets the least win. An old label that a thread reads is too high: then it
// lowers less than it could, or finds nothing to do while the thread that lowered the label has said that something
// changed; so there is one more round, which sees it.
SPG_KERNEL __launch_bounds__(1024, 1)
    cc_label(index_t n, offset_t nnz, const index_t* __restrict__ row, const index_t* __restrict__ col, index_t* label,
             int* changed, unsigned* barrier, long long* stamps, int watched)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = thread; v < n; v += threads) label[v] = (index_t)v;
    if (thread == 0) changed[0] = 0;
    grid_barrier(barrier);
    for (int k = 0;; ++k) {
        const int round = k % 3;
        if (thread == 0) {
            changed[(round + 1) % 3] = 0;
            stamp(stamps, watched, k, 0);
        }
        bool any = false;
        for (long long e = thread; e < nnz; e += threads) {
            const index_t u = row[e], w = col[e];
            const index_t a = load_grid(label + u), b = load_grid(label + w);
            if (a == b) continue;
            atomicMin(label + (a < b ? w : u), min(a, b));
            any = true;
        }
        if (any) store_grid(changed + round, 1);
        grid_barrier(barrier);
        if (changed[round] == 0) {
            if (thread == 0) stamp(stamps, watched, k + 1, -1);
            break;
        }
    }
}
