// pull-hubs: PageRank; every vertex adds up what its in-edges bring, and what the busiest sources bring comes from
//            shared memory.
//
// Layout   see power.cuh. x0, x1 value_t [n + 1]: what each vertex gives along an edge, of the iteration before and of
//          this one in turn, the most gathered first: vertex v's is at place[v], or at v where place is null. x[n] is
//          0. edge, row_of, bare, and the arrays of the chunks: below.
// Mapping  one block per SM, with x[0 .. hubs) in its shared memory, copied there in each iteration. Warps take
//          chunks, which are about equally much work, for themselves: no barrier but the one at an iteration's end.
//          A lane reads four edges as 16 bytes, one tile ahead, and adds up their x, see common/marked_rows.cuh.
// Wins     on skewed graphs: of rmat20's edges (symmetrised) 74 % come from the 44,032 busiest of a million vertices.
//          Their x cost neither a sector of L2 nor a look-up in L1, which does one line a cycle.
// Loses    to pull on small graphs, which L1 holds anyway, and where all vertices are alike (grids).
// Idea     degree-ordered gathers: Balaji and Lucia, "When is graph reordering an optimization?", IISWC 2018.
#include "../common/marked_rows.cuh"
#include "../common/stream.cuh"
#include "cached.cuh"
#include "power.cuh"

// Layout of the edges, in tiles of 128; work is cut into chunks of tiles:
//   edge         unsigned [128 tiles]: for each in-edge, rows after one another, the place of its source's x; the top
//                bit marks a row's last edge; n fills up the last tile
//   row_of       int32: the vertices with in-edges, in that order
//   bare         int32 [bares]: the vertices without
//   tile_begin   int32 [chunks + 1]
//   first_row    int32 [chunks]: the row (as counted in row_of) of a chunk's first edge
//   head_leader  int32 [chunks]: the chunk in which the row begins that comes in from the chunk before
//   head_pieces, tail_pieces  int32 [chunks]: over how many chunks that row, and the one that goes on into the next
//                chunk, are spread; 0 if there is none
//   partial      value_t [2 chunks], and arrived unsigned [chunks], all 0, left as they were found
//
// A row in several chunks is finished by the warp that comes last, which always adds its pieces in the same order.

// Once per graph: edges without marks, then the marks.
SPG_KERNEL hubs_edges(long long places, long long m, index_t n, const index_t* __restrict__ in,
                      const index_t* __restrict__ place, unsigned* __restrict__ edge)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= places) return;
    index_t at = n;
    if (e < m) at = place ? place[in[e]] : in[e];
    edge[e] = (unsigned)at;
}

SPG_KERNEL hubs_marks(index_t rows, const index_t* __restrict__ row_of, const offset_t* __restrict__ in_ptr,
                      unsigned* edge)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) edge[in_ptr[(long long)row_of[i] + 1] - 1] |= LAST;
}

// x from shared memory or from global memory, without a branch, so that all loads of a lane are in flight together.
__device__ __forceinline__ value_t near_or_far(const value_t* hub, index_t hubs, const value_t* x, index_t at)
{
    const bool near = at < hubs;
    value_t v = hub[near ? at : 0];
    load_cached_unless(near, x + at, v);
    return v;
}

struct rank_writer {
    power_iteration& p;
    const index_t* __restrict__ place;
    value_t* x;

    __device__ __forceinline__ void put(index_t v, value_t sum)
    {
        const value_t part = p.share[v];
        const value_t now = p.renew(v, sum, p.rank[v], part);
        if (part != 0) x[place ? place[v] : v] = now * part;
    }
};

// A piece of row `row`, which begins in chunk `leader` and is spread over `pieces` chunks. The whole warp calls it.
__device__ __forceinline__ void give_piece(value_t piece, long long slot, index_t leader, index_t pieces, index_t row,
                                           value_t* partial, unsigned* arrived, rank_writer& out)
{
    const int lane = threadIdx.x % 32;
    unsigned before = 0;
    if (lane == 0) {
        partial[slot] = piece;
        __threadfence();  // the piece is in memory before its arrival is counted
        before = atomicAdd(arrived + leader, 1u);
        if (before == (unsigned)pieces - 1) __threadfence();  // lane 0 saw all arrive: the fence must be its own
    }
    before = __shfl_sync(SPG_FULL_WARP, before, 0);
    if (before != (unsigned)pieces - 1) return;
    __syncwarp();  // a shuffle orders no memory: what lane 0 knows to be there, all lanes may read now
    const volatile value_t* all = partial + 2 * (long long)leader;  // volatile: not from this SM's L1
    value_t sum = 0;
    for (index_t k = lane; k < pieces; k += 32) sum += all[k ? 2 * (long long)k : 1];
    sum = warp_sum(sum);
    if (lane == 0) {
        arrived[leader] = 0;  // ready for the next iteration
        out.put(row, sum);
    }
}

SPG_KERNEL __launch_bounds__(1024, 1)
    pagerank_pull_hubs(POWER_PARAMETERS, index_t hubs, index_t chunks, const unsigned* __restrict__ edge,
                       const index_t* __restrict__ row_of, index_t bares, const index_t* __restrict__ bare,
                       const index_t* __restrict__ place, const index_t* __restrict__ tile_begin,
                       const index_t* __restrict__ first_row, const index_t* __restrict__ head_leader,
                       const index_t* __restrict__ head_pieces, const index_t* __restrict__ tail_pieces,
                       value_t* partial, unsigned* arrived, value_t* x0, value_t* x1)
{
    SPG_DYNAMIC_SHARED(value_t, memory);  // x of the hubs, then sums of each warp
    value_t* const hub = memory;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    marked_rows rows;
    // A place at least, which far lanes read: other warps write to their sums.
    rows.sums = memory + (hubs > 0 ? hubs : 1) + warp * SUMS;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    // Neighbouring chunks go to different SMs: hubs' rows are done faster than others.
    const long long first_chunk = (long long)warp * gridDim.x + blockIdx.x, warps = threads / 32;

    power_iteration p = POWER_ITERATION;
    p.begin(x0, nullptr, place);
    for (int k = 0;; ++k) {
        const value_t* x = k % 2 ? x1 : x0;
        rank_writer out = {p, place, k % 2 ? x0 : x1};
        const auto put = [&](index_t i, value_t sum) { out.put(row_of[i], sum); };
        // Copies of 16 bytes that no thread waits for until vertices without in-edges are done.
        constexpr index_t UNIT = 16 / sizeof(value_t);
        for (index_t i = UNIT * threadIdx.x; i < hubs / UNIT * UNIT; i += UNIT * blockDim.x)
            spg_copy_async<16>(hub + i, x + i);
        spg_copy_commit();
        if (threadIdx.x < hubs % UNIT) {
            const index_t i = hubs / UNIT * UNIT + threadIdx.x;
            hub[i] = x[i];
        }
        for (long long i = thread; i < bares; i += threads) out.put(bare[i], 0);
        spg_copy_wait<0>();
        __syncthreads();

        for (long long c = first_chunk; c < chunks; c += warps) {
            const index_t end = tile_begin[c + 1];
            index_t tile = tile_begin[c];
            const index_t comes_in = head_pieces[c];
            rows.begin(first_row[c], comes_in > 0);
            const int4* quads = reinterpret_cast<const int4*>(edge) + lane;
            int4 next = spg_stream(quads + 32LL * tile);
            for (; tile < end; ++tile) {
                const int4 q = next;
                if (tile + 1 < end) next = spg_stream(quads + 32LL * (tile + 1));
                const unsigned e[4] = {(unsigned)q.x, (unsigned)q.y, (unsigned)q.z, (unsigned)q.w};
                value_t v[4];
#pragma unroll
                for (int u = 0; u < 4; ++u) v[u] = near_or_far(hub, hubs, x, (index_t)(e[u] & ~LAST));
                rows.add(e, v, put);
            }
            rows.finish(put);
            const index_t goes_on = tail_pieces[c];
            if (comes_in > 0)
                give_piece(rows.piece(), 2 * c, head_leader[c], comes_in, row_of[first_row[c]], partial, arrived, out);
            if (goes_on > 0 && !rows.inside())
                give_piece(warp_sum(rows.open), 2 * c + 1, (index_t)c, goes_on, row_of[rows.row], partial, arrived,
                           out);
        }
        if (p.settle(k)) break;
    }
}
