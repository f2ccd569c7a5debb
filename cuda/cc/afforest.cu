// afforest: connected components by joining trees, most edges of the largest component never looked at.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz]: out-edges, rising in each row; col_ptr, row: in-edges, null where
//          they are the same (undirected graphs). parent int32 [n]: see graph/components.cuh; in the end the least id
//          of each component. Directions do not count.
//          piece int64 [pieces]: parts of long lists, vertex | which of the two lists << 31 | part << 32;
//          state int32 [2]: the least vertex of the hub's component, the number of pieces; barrier unsigned [1].
//          near unsigned [n / 32, rounded up]: a bit per vertex, of the hub's component or without any edge.
//          stamps: a step for each below, by its code, see graph/stamps.cuh; the code -1 ends them.
// Mapping  one cooperative launch, grid barriers between steps, which are listed below.
// Wins     nearly everywhere: on rmat graphs it reads one or two sectors of each list instead of all.
// Loses    where the hub's component is not large: each edge is looked at from both ends then.
// Idea     Sutton, Ben-Nun and Barak, "Optimizing parallel graph connectivity computation via subgraph sampling",
//          IPDPS 2018; the first neighbour and the walks of Jaiganesh and Burtscher (ECL-CC), HPDC 2018; a bottom-up
//          search for the giant component: Slota, Rajamanickam and Madduri, IPDPS 2014, with Beamer's levels.
#include "../common/spg.cuh"
#include "../common/ordered.cuh"
#include "../graph/components.cuh"
#include "../graph/lists.cuh"
#include "../graph/stamps.cuh"

// The steps, by the codes of their stamps.
//   0 every block by itself: the hub, the most frequent end of 1,024 edges or fewer, picked by a hash.
// If it has `hub_degree` times the mean number of edges or more, most vertices are two or three edges from it:
//   7 a thread per edge of the hub: the bit of its neighbour.
//   8 twice, a warp per word of bits: each vertex without a bit looks at its first `probes` neighbours for one
//     that has it, and goes beneath the hub. No atomics, no walks, and trees of one level.
// Else trees grow everywhere:
//   0 a thread per vertex: beneath its first neighbour, if that is smaller. No atomics.
//   1 a thread per edge of the hub: its neighbours beneath it, wherever they were.
//   2 a thread per vertex: up to its root. Long paths double their steps.
//   3 a thread per vertex: join with its first `rounds` neighbours. They are in one or two sectors of memory,
//     the rest of a list is not touched. In a graph with a giant component most of it is the hub's tree by
//     now.
// And either way:
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

__device__ __forceinline__ bool has_bit(const unsigned* bits, index_t v)
{
    return load_block(bits + v / 32) >> v % 32 & 1;
}

// How many words of bits a warp has at a time: one by one, it waits for offsets, neighbours and bits in turn, 4 us a
// word.
#define SPG_WORDS 4

// Bits that others set meanwhile may be seen or not: every vertex that has one is in the component. Each word has one
// writer. The first of such searches writes all parents, and sets the bits of vertices without any edge, which nothing
// will look for.
__device__ __forceinline__ void search_once(index_t n, index_t hub, bool first, int probes,
                                            const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                            const offset_t* __restrict__ col_ptr, unsigned* near, index_t* parent)
{
    const int lane = threadIdx.x & 31;
    const long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const long long warps = (long long)gridDim.x * blockDim.x / 32, words = ((long long)n + 31) / 32;
    for (long long word = warp * SPG_WORDS; word < words; word += warps * SPG_WORDS) {
        unsigned before[SPG_WORDS];
        offset_t e[SPG_WORDS], end[SPG_WORDS];
        bool hit[SPG_WORDS], done[SPG_WORDS];
#pragma unroll
        for (int w = 0; w < SPG_WORDS; ++w) before[w] = word + w < words ? load_grid(near + word + w) : 0xffffffffu;
#pragma unroll
        for (int w = 0; w < SPG_WORDS; ++w) {
            const long long v = (word + w) * 32 + lane;
            const bool open = v < n && !(before[w] >> lane & 1);
            e[w] = open ? row_ptr[v] : 0;
            end[w] = open ? row_ptr[v + 1] : 0;
            hit[w] = false;
            done[w] = first && open && e[w] == end[w] && (!col_ptr || col_ptr[v] == col_ptr[v + 1]);
            if (end[w] - e[w] > probes) end[w] = e[w] + probes;
        }
        for (bool more = true; more;) {
            more = false;
            index_t other[SPG_WORDS][2];  // two of each, all waited for together
#pragma unroll
            for (int w = 0; w < SPG_WORDS; ++w) {
#pragma unroll
                for (int i = 0; i < 2; ++i) other[w][i] = !hit[w] && i < end[w] - e[w] ? col[e[w] + i] : -1;
            }
#pragma unroll
            for (int w = 0; w < SPG_WORDS; ++w) {
#pragma unroll
                for (int i = 0; i < 2; ++i) hit[w] |= other[w][i] >= 0 && has_bit(near, other[w][i]);
                e[w] += 2;
                more |= !hit[w] && e[w] < end[w];
            }
        }
#pragma unroll
        for (int w = 0; w < SPG_WORDS; ++w) {
            const long long v = (word + w) * 32 + lane;
            const bool had = before[w] >> lane & 1;
            const unsigned found = __ballot_sync(SPG_FULL_WARP, hit[w] || done[w]);
            if (v < n && (first || hit[w])) parent[v] = had || hit[w] ? hub : (index_t)v;
            if (lane == 0 && found) store_grid(near + word + w, before[w] | found);
        }
    }
}

// Whether v is in the hub's tree, whose root is never hooked.
__device__ __forceinline__ bool is_beneath(index_t v, index_t hub, const index_t* parent)
{
    for (index_t next; v != hub; v = next)
        if ((next = load_block(parent + v)) == v) return false;
    return true;
}

// Steps 1 to 3: trees beneath first neighbours, the hub's and all others, and joins with more neighbours.
template <class NextStep>
__device__ __forceinline__ void grow_trees(index_t n, index_t hub, int rounds, int lists,
                                           const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                           const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                           index_t* parent, unsigned* barrier, NextStep next_step)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    // The edge to its first neighbour, which such a vertex may lose here, is joined in step 3, or by its other end.
    for (int list = 0; list < lists; ++list) {
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
}

// Step 4, for vertices that are not done, a warp for WORDS times 32 vertices.
template <int WORDS, class IsDone>
__device__ __forceinline__ void join_the_rest(index_t n, index_t hub, int lists, int skipped, int long_list,
                                              const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                              const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                              index_t* parent, long long* piece, int* state, IsDone is_done)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const int lane = threadIdx.x & 31;
    for (long long group = (thread - lane) * WORDS; group < n; group += threads * WORDS) {
        unsigned open_ones = 0;  // of the lane's vertices, one in each word
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            const long long v = group + w * 32 + lane;
            const bool open = v < n && !is_done((index_t)v);
            open_ones |= (unsigned)open << w;
        }
        for (int w = 0; w < WORDS; ++w) {
            const long long base = group + w * 32, v = base + lane;
            const bool open = open_ones >> w & 1;
            if (!__any_sync(SPG_FULL_WARP, open)) continue;
            for (int list = 0; list < lists; ++list) {
                const offset_t* const starts = list ? col_ptr : row_ptr;
                const index_t* const others = list ? row : col;
                offset_t e = 0, end = 0;
                if (open) {
                    end = starts[v + 1];
                    e = min(end, starts[v] + (list ? 0 : skipped));
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
    }
}

SPG_KERNEL __launch_bounds__(1024, 1)
    cc_afforest(index_t n, offset_t nnz, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row, index_t* parent, int rounds,
                int probes, int hub_degree, int long_list, long long* piece, int* state, unsigned* near,
                unsigned* barrier, long long* stamps, int watched)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const int lane = threadIdx.x & 31;
    int step = 0;
    const auto next_step = [&](int code) {
        if (thread == 0) stamp(stamps, watched, step++, code);
    };
    next_step(0);
    const unsigned hash = (threadIdx.x + 1) * 2654435761u;
    const index_t hub = favourite(nnz > 0 ? col[(offset_t)((double)hash / 4294967296.0 * (double)nnz)] : 0);
    const int lists = col_ptr ? 2 : 1;
    const offset_t around = nnz > 0 ? row_ptr[hub + 1] - row_ptr[hub] : 0;
    const bool search = nnz > 0 && (double)around * n >= (double)hub_degree * nnz;
    const int skipped = search ? 0 : rounds;  // neighbours that a vertex is joined with before step 4
    if (search) {
        for (long long word = thread; word * 32 < n; word += threads) near[word] = 0;
    } else {
        for (long long v = thread; v < n; v += threads) {
            const offset_t e = row_ptr[v];
            parent[v] = e < row_ptr[v + 1] && v != hub ? min((index_t)v, col[e]) : (index_t)v;
        }
    }
    if (thread == 0) {
        state[0] = n;
        state[1] = 0;
    }
    grid_barrier(barrier);
    next_step(search ? 7 : 1);

    if (search) {
        if (thread == 0) atomicOr(near + hub / 32, 1u << hub % 32);
        for (int list = 0; list < lists; ++list) {
            const offset_t* const starts = list ? col_ptr : row_ptr;
            const index_t* const others = list ? row : col;
            for (offset_t e = starts[hub] + thread; e < starts[hub + 1]; e += threads)
                atomicOr(near + others[e] / 32, 1u << others[e] % 32);
        }
        for (int round = 0; round < 2; ++round) {
            grid_barrier(barrier);
            next_step(8);
            search_once(n, hub, round == 0, probes, row_ptr, col, col_ptr, near, parent);
        }
        grid_barrier(barrier);
        next_step(4);
        join_the_rest<SPG_WORDS>(n, hub, lists, skipped, long_list, row_ptr, col, col_ptr, row, parent, piece, state,
                                 [&](index_t v) { return has_bit(near, v); });
    } else {
        grow_trees(n, hub, rounds, lists, row_ptr, col, col_ptr, row, parent, barrier, next_step);
        next_step(4);
        join_the_rest<1>(n, hub, lists, skipped, long_list, row_ptr, col, col_ptr, row, parent, piece, state,
                         [&](index_t v) { return is_beneath(v, hub, parent); });
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
            const offset_t begin = starts[v] + (in ? 0 : skipped) + (offset_t)(which >> 32) * long_list;
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
    for (int distance = 16; distance > 0; distance /= 2)
        mine = min(mine, __shfl_xor_sync(SPG_FULL_WARP, mine, distance));
    if (lane == 0 && mine < n) atomicMin(&least, mine);
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
        next_step(-1);
    }
}
