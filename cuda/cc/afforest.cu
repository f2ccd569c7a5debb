// afforest: connected components by joining trees, most edges of the largest component never looked at.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges, rising in each row; col_ptr, row: in-edges, null where
//          they are the same (undirected graphs). parent int32 [n]: see graph/components.cuh; in the end the least id
//          of each component. Directions do not count.
//          piece int64 [pieces]: parts of long lists, vertex | which of the two lists << 31 | part << 32;
//          state int32 [2]: the least vertex of the hub's component, the number of pieces; barrier unsigned [1].
//          stamps: a step for each below, codes 0 to 6, see graph/stamps.cuh; the code -1 ends them.
// Mapping  one cooperative launch, grid barriers between seven steps, which are listed below.
// Wins     nearly everywhere: on rmat graphs it reads about two neighbours per vertex instead of all.
// Loses    where the hub's component is not large: each edge is looked at from both ends then.
// Idea     Sutton, Ben-Nun and Barak, "Optimizing parallel graph connectivity computation via subgraph sampling",
//          IPDPS 2018; the first neighbour and the walks of Jaiganesh and Burtscher (ECL-CC), HPDC 2018.
#include "../common/spg.cuh"
#include "../common/ordered.cuh"
#include "../graph/components.cuh"
#include "../graph/lists.cuh"
#include "../graph/stamps.cuh"

// The steps, by the codes of their stamps.
//   0 every block by itself: the hub, the most frequent end of 1,024 edges or fewer, picked by a hash. A
//     thread per vertex: beneath its first neighbour, if that is smaller. No atomics.
//   1 a thread per edge of the hub: its neighbours beneath it, wherever they were.
//   2 a thread per vertex: up to its root. Long paths double their steps.
//   3 a thread per vertex: join with its first `rounds` neighbours. They are in one or two sectors of memory,
//     the rest of a list is not touched. In a graph with a giant component most of it is the hub's tree by
//     now.
//   4 a warp per 32 vertices: those that are not in the hub's tree are joined with all neighbours left,
//     both out and in, the lists of a warp walked together. Lists longer than `long_list` are cut into pieces
//     and left to
//   5 a block per piece.
//   6 a thread per vertex: up to its root; then the hub's component gets its least vertex for a label.
//
// An edge is skipped only if both of its ends skip it, each because it was seen in the hub's tree; then they are
// connected already. So every end must be able to see the edge: of a directed graph both lists are needed.

// The value that is most frequent among those of all threads of the block, as far as counting each warp's own favourite
// goes. Any value would be right; a frequent one saves work. At most 1,024 threads, all of them come.
__device__ __forceinline__ index_t favourite(index_t value)
{
    SPG_SHARED(index_t, values, 32);
    SPG_SHARED(int, counts, 32);
    const int lane = threadIdx.x & 31, warps = blockDim.x / 32;
    int alike = 0;
    for (int i = 0; i < 32; ++i) {
        const unsigned same = __ballot_sync(SPG_FULL_WARP, value == __shfl_sync(SPG_FULL_WARP, value, i));
        if (lane == i) alike = __popc(same);
    }
    int most = alike;
    for (int distance = 16; distance > 0; distance /= 2)
        most = max(most, __shfl_xor_sync(SPG_FULL_WARP, most, distance));
    const int first = __ffs((int)__ballot_sync(SPG_FULL_WARP, alike == most)) - 1;
    if (lane == first) {
        values[threadIdx.x / 32] = value;
        counts[threadIdx.x / 32] = most;
    }
    __syncthreads();
    const index_t mine = values[lane < warps ? lane : 0];
    int sum = 0;
    for (int i = 0; i < warps; ++i) sum += values[i] == mine ? counts[i] : 0;
    most = sum;
    for (int distance = 16; distance > 0; distance /= 2)
        most = max(most, __shfl_xor_sync(SPG_FULL_WARP, most, distance));
    return __shfl_sync(SPG_FULL_WARP, mine, __ffs((int)__ballot_sync(SPG_FULL_WARP, sum == most)) - 1);
}

// Whether v is in the hub's tree, whose root is never hooked.
__device__ __forceinline__ bool is_beneath(index_t v, index_t hub, const index_t* parent)
{
    for (index_t next; v != hub; v = next)
        if ((next = load_block(parent + v)) == v) return false;
    return true;
}

SPG_KERNEL __launch_bounds__(1024, 1)
    cc_afforest(index_t n, offset_t nnz, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row, index_t* parent, int rounds,
                int long_list, long long* piece, int* state, unsigned* barrier, long long* stamps, int watched)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const int lane = threadIdx.x & 31;
    const auto next_step = [&](int step) {
        if (thread == 0) stamp(stamps, watched, step, step < 7 ? step : -1);
    };
    next_step(0);
    const unsigned hash = (threadIdx.x + 1) * 2654435761u;
    const index_t hub = favourite(nnz > 0 ? col[(offset_t)((double)hash / 4294967296.0 * (double)nnz)] : 0);
    for (long long v = thread; v < n; v += threads) {
        const offset_t e = row_ptr[v];
        parent[v] = e < row_ptr[v + 1] && v != hub ? min((index_t)v, col[e]) : (index_t)v;
    }
    if (thread == 0) {
        state[0] = n;
        state[1] = 0;
    }
    grid_barrier(barrier);
    next_step(1);

    // The edge to its first neighbour, which such a vertex may lose here, is joined in step 3, or by its other end.
    for (int list = 0; list < (col_ptr ? 2 : 1); ++list) {
        const offset_t* const starts = list ? col_ptr : row_ptr;
        const index_t* const others = list ? row : col;
        for (long long e = starts[hub] + thread; e < starts[hub + 1]; e += threads)
            store_grid(parent + others[e], hub);  // perhaps by two threads, if there are edges both ways
    }
    grid_barrier(barrier);
    next_step(2);

    for (long long v = thread; v < n; v += threads) flatten((index_t)v, parent);
    grid_barrier(barrier);
    next_step(3);

    for (long long v = thread; v < n; v += threads) {
        const offset_t begin = row_ptr[v], end = min(row_ptr[v + 1], begin + rounds);
        for (offset_t e = begin; e < end; ++e) join((index_t)v, col[e], hub, parent);
    }
    grid_barrier(barrier);
    next_step(4);

    for (long long base = thread - lane; base < n; base += threads) {
        const long long v = base + lane;
        const bool open = v < n && !is_beneath((index_t)v, hub, parent);
        if (!__any_sync(SPG_FULL_WARP, open)) continue;
        for (int list = 0; list < (col_ptr ? 2 : 1); ++list) {
            const offset_t* const starts = list ? col_ptr : row_ptr;
            const index_t* const others = list ? row : col;
            offset_t e = 0, end = 0;
            if (open) {
                end = starts[v + 1];
                e = min(end, starts[v] + (list ? 0 : rounds));
                if (end - e > long_list) {
                    const int parts = (int)((end - e + long_list - 1) / long_list);
                    const int at = atomicAdd(state + 1, parts);
                    for (int part = 0; part < parts; ++part)
                        piece[at + part] = (long long)part << 32 | (long long)list << 31 | v;
                    e = end;
                }
            }
            walk_lists(e, end, [&](bool active, int owner, offset_t at) {
                if (active) join((index_t)(base + owner), others[at], hub, parent);
            });
        }
    }
    grid_barrier(barrier);
    next_step(5);

    const int pieces = state[1];
    if (pieces > 0) {
        for (int i = blockIdx.x; i < pieces; i += gridDim.x) {
            const long long which = piece[i];
            const index_t v = (index_t)(which & 0x7fffffff);
            const bool in = which >> 31 & 1;
            const offset_t* const starts = in ? col_ptr : row_ptr;
            const index_t* const others = in ? row : col;
            const offset_t begin = starts[v] + (in ? 0 : rounds) + (offset_t)(which >> 32) * long_list;
            const offset_t end = min(starts[v + 1], begin + long_list);
            for (offset_t e = begin + threadIdx.x; e < end; e += blockDim.x) join(v, others[e], hub, parent);
        }
        grid_barrier(barrier);
    }
    next_step(6);

    SPG_SHARED_VAR(index_t, least);
    if (threadIdx.x == 0) least = n;
    __syncthreads();
    index_t mine = n;  // the least vertex of the hub's component that this thread has
    for (long long v = thread; v < n; v += threads)
        if (flatten((index_t)v, parent) == hub) mine = min(mine, (index_t)v);
    if (mine < n) atomicMin(&least, mine);
    __syncthreads();
    if (threadIdx.x == 0 && least < n) atomicMin(state, least);
    grid_barrier(barrier);
    const index_t name = state[0];
    if (name != hub) {
        for (long long v = thread; v < n; v += threads)
            if (parent[v] == hub) parent[v] = name;
    }
    if (watched > 0) {
        grid_barrier(barrier);
        next_step(7);
    }
}
