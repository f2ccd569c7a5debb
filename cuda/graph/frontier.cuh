// frontier.cuh: a frontier as a queue of vertices, and how a warp walks all of its edges evenly.
//
// Layout   queue index_t [count]: the vertices of a level that have out-edges, in no order;
//          start offset_t [count]: how many edges of the frontier come before that vertex, strictly rising;
//          tally  word64_t: count << 33 | edges, of the frontier. Up to 2^31 - 1 vertices and
//                 2^33 - 1 edges; host functions refuse graphs that have more (check_tally).
// Because position and edge offset come from one atomic on one word, the offsets are a prefix sum of the degrees in
// queue order without any scan: the edges of a frontier can be cut into equal parts directly (merge-path for free).
#pragma once

#include "../common/warp.cuh"

#define SPG_EDGE_BITS 33

__device__ __forceinline__ word64_t tally_of(long long count, long long edges)
{
    return (word64_t)count << SPG_EDGE_BITS | (word64_t)edges;
}
__device__ __forceinline__ long long tally_count(word64_t tally) { return (long long)(tally >> SPG_EDGE_BITS); }
__device__ __forceinline__ long long tally_edges(word64_t tally)
{
    return (long long)(tally & (((word64_t)1 << SPG_EDGE_BITS) - 1));
}

// Places for the lanes with `degree` > 0: `position` in the queue and edge offset `before`. One atomic per warp, none
// where no lane wants one. All 32 lanes come together.
__device__ __forceinline__ void reserve(offset_t degree, word64_t* tally, long long& position, offset_t& before)
{
    const unsigned lane = threadIdx.x & 31, wanting = __ballot_sync(SPG_FULL_WARP, degree > 0);
    if (!wanting) return;
    const offset_t sum = warp_inclusive_sum(degree);  // those that want none add 0
    word64_t old = 0;
    if (lane == 31) old = atomicAdd(tally, tally_of(__popc(wanting), sum));
    old = __shfl_sync(SPG_FULL_WARP, old, 31);
    position = tally_count(old) + __popc(wanting & ((1u << lane) - 1));
    before = (offset_t)tally_edges(old) + sum - degree;
}

// What one warp finds, gathered in shared memory until 32 vertices are there. Their degrees are then loaded side by
// side, and one atomic makes room for all of them: one per step of 32 edges, most of which find a few vertices only,
// would make the tally the bottleneck of a large level.
//
// `slots` is shared memory for 64 vertices, the warp's own. All lanes come together to add and to rest; flush(count) is
// called by all of them, with the vertices in slots[0 .. count).
struct warp_gather {
    index_t* slots;
    int held;
    template <class Flush> __device__ __forceinline__ void add(bool has, index_t v, Flush flush)
    {
        const int lane = threadIdx.x & 31;
        const unsigned having = __ballot_sync(SPG_FULL_WARP, has);
        if (has) slots[held + __popc(having & ((1u << lane) - 1))] = v;
        held += __popc(having);
        __syncwarp();
        if (held < 32) return;
        flush(32);
        held -= 32;
        const index_t moved = lane < held ? slots[32 + lane] : 0;
        __syncwarp();
        if (lane < held) slots[lane] = moved;
        __syncwarp();
    }
    template <class Flush> __device__ __forceinline__ void rest(Flush flush)
    {
        if (held > 0) flush(held);  // the warp as a whole
        held = 0;
    }
};

// Puts slots[0 .. count) into the queue that begins at `queue` and `start`; those without out-edges are omitted.
__device__ __forceinline__ void enqueue_gathered(const index_t* slots, int count, const offset_t* __restrict__ row_ptr,
                                                 index_t* queue, offset_t* start, word64_t* tally)
{
    const int lane = threadIdx.x & 31;
    const bool has = lane < count;
    const index_t v = has ? slots[lane] : 0;
    const offset_t degree = has ? row_ptr[v + 1] - row_ptr[v] : 0;
    long long position = 0;
    offset_t before = 0;
    reserve(degree, tally, position, before);
    if (degree > 0) {
        queue[position] = v;
        start[position] = before;
    }
}

// A warp's walk over the edges of a frontier that fall to it, `warp` of `warps`: one stretch of consecutive edges.
//
// A search that all lanes share (each step cuts the range to 1/32) finds the vertex the stretch begins in. Then each
// step loads the next 32 queue entries, one a lane, from the one that the step's first edge belongs to; since every
// vertex has an edge, they cover the next 32 edges, and each lane finds its own among them by shuffles.
//
// All lanes come together to make one and to step. To have several steps' loads in flight, take several
// steps before looking at what they gave.
struct edge_walk {
    const index_t* queue;
    const offset_t* start;
    const offset_t* __restrict__ row_ptr;
    long long count, edge, last, at;

    __device__ __forceinline__ edge_walk(const index_t* queue, const offset_t* start, word64_t tally,
                                         const offset_t* __restrict__ row_ptr, long long warp, long long warps)
        : queue(queue), start(start), row_ptr(row_ptr), count(tally_count(tally)), at(0)
    {
        const int lane = threadIdx.x & 31;
        const long long edges = tally_edges(tally), steps = (edges + 31) / 32, share = (steps + warps - 1) / warps;
        edge = warp * share * 32;
        last = min(edges, edge + share * 32);
        if (edge >= last) return;  // the warp as a whole
        long long beyond = count;  // start[at] <= edge < start[beyond]
        while (beyond - at > 1) {
            const long long step = (beyond - at + 31) / 32, probe = at + (lane + 1) * step;
            const bool below = probe < beyond && start[probe] <= edge;
            at += __popc(__ballot_sync(SPG_FULL_WARP, below)) * step;
            beyond = min(beyond, at + step);
        }
    }
    __device__ __forceinline__ bool more() const { return edge < last; }
    // The next 32 edges: this lane's is in col[position], from `vertex`; both are 0 where it has none (not `active`).
    __device__ __forceinline__ void step(bool& active, index_t& vertex, offset_t& position)
    {
        const int lane = threadIdx.x & 31;
        const long long entry = at + lane;
        int begins = 33;      // this lane's entry begins at edge + begins; 33 is beyond the next step's first edge
        offset_t base = 0;    // col[base + e] is the neighbour at frontier edge e
        vertex = 0;
        if (entry < count) {
            const offset_t offset = start[entry];
            vertex = queue[entry];
            begins = (int)max(-1ll, min(33ll, (long long)offset - edge));
            base = row_ptr[vertex] - offset;
        }
        int mine = 0;  // the last entry that begins at or before this lane's edge
        for (int half = 16; half > 0; half /= 2) {
            const int there = __shfl_sync(SPG_FULL_WARP, begins, (mine + half) & 31);
            if (there <= lane) mine += half;
        }
        base = __shfl_sync(SPG_FULL_WARP, base, mine);
        vertex = __shfl_sync(SPG_FULL_WARP, vertex, mine);
        active = edge + lane < last;
        position = active ? base + (offset_t)(edge + lane) : 0;
        vertex = active ? vertex : 0;
        // The next step's first edge belongs to the last entry that begins there or before. An entry that ends with
        // this step must not be taken along: 31 others of one edge each would leave the last lane without its own.
        const int begun = __popc(__ballot_sync(SPG_FULL_WARP, begins <= 32));
        at += begun - 1;
        if (begun == 32 && at + 1 < count && start[at + 1] == edge + 32) ++at;
        edge += 32;
    }
};

// Calls visit(active, vertex, neighbour) for the edges that fall to `warp` of `warps`, 32 at a time, all lanes
// together (`active` is false beyond the last edge).
template <class Visit>
__device__ __forceinline__ void expand_edges(const index_t* queue, const offset_t* start, word64_t tally,
                                             const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                             long long warp, long long warps, Visit visit)
{
    edge_walk walk(queue, start, tally, row_ptr, warp, warps);
    while (walk.more()) {
        bool active;
        index_t vertex;
        offset_t position;
        walk.step(active, vertex, position);
        visit(active, vertex, active ? col[position] : 0);
    }
}
