// relax_alone.cuh: phases of a small frontier, and splits of a small far pile, by one block without grid barriers.
#pragma once

#include "one_block.cuh"
#include "relax.cuh"
#include "stamps.cuh"

#define SPG_RECENT 2048  // slots that tell vertices queued twice in a phase apart

// What one block takes on alone: at most `vertices` (never more than SPG_NEAR) with at most `edges` out-edges, few
// each, so that little is lost when a thread takes a vertex with all of them; and far piles of at most `waiting`.
struct small_search {
    int vertices;
    long long edges, waiting;
    __device__ __forceinline__ bool holds(word64_t tally) const
    {
        return tally_count(tally) <= min(vertices, SPG_NEAR) && tally_edges(tally) <= edges &&
               tally_edges(tally) <= 8 * tally_count(tally) + 64;
    }
};

// What a search tells of a step (see stamps.cuh): what is done, and the edges relaxed or the entries of the far pile.
__device__ __forceinline__ long long told_phase(word64_t tally, bool alone)
{
    return tally_edges(tally) << 2 | (int)alone;
}
__device__ __forceinline__ long long told_split(long long waiting, bool alone) { return waiting << 2 | 2 | (int)alone; }

// How far a search is. `fresh`: the last thing done was a split, so that the least length in the far pile is known.
struct search_place {
    int k, j, threshold, fresh;
    value_t delta;
    long long relaxed, before;  // edges relaxed, and how many of them before the last split
};

// The threshold of the next split. Where less than `busy` edges were relaxed since the last one, delta doubles first:
// too little came near to keep the GPU busy.
__device__ __forceinline__ void raise_threshold(const search_piles& s, search_place& at, long long busy)
{
    if (at.relaxed - at.before < busy) at.delta = twice(at.delta);
    at.before = at.relaxed;
    at.threshold = threshold_beyond(at.fresh ? load_grid(s.far_least(at.j)) : at.threshold, at.delta);
}

// One warp's part of a phase: a lane takes the vertex of length `from` with the edges from `e` to `end`, four at a
// time, so that their targets, the lengths of those, and the degrees of the ones to be queued are each waited for once.
// `place` gives the first of so many places in the queue to the whole warp, `put` stores a vertex there. Returns the
// degrees of what this lane queued (each counted as 2^18 at most). All lanes come together.
//
// Only this block works on the graph, so L1 may answer what a target's length is: an old one is too long at worst, and
// costs a needless atomicMin. No thread waits for that; a length that two threads lower ends as the lesser of the two.
template <class Place, class Put>
__device__ __forceinline__ unsigned relax_vertices(const weighted_graph& g, const search_piles& s, offset_t e,
                                                   offset_t end, int from, int k, int j, int threshold,
                                                   word64_t* recent, Place place, Put put)
{
    const int lane = threadIdx.x & 31;
    const unsigned below = (1u << lane) - 1;
    unsigned degrees = 0;
    for (; __any_sync(SPG_FULL_WARP, e < end); e += 4) {
        index_t w[4];
        int length[4], known[4];
        unsigned degree[4];
        bool far = false;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            w[u] = -1;
            length[u] = 0x7fffffff;
            if (e + u < end) {
                w[u] = g.col[e + u];
                length[u] = length_plus(from, g.weight_of(e + u));
            }
        }
#pragma unroll
        for (int u = 0; u < 4; ++u) known[u] = w[u] >= 0 ? load_block(s.dist + w[u]) : 0;
        lanes_together();
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            degree[u] = 0;
            if (length[u] >= min(known[u], g.limit)) {
                w[u] = -1;
                continue;
            }
            atomicMin(s.dist + w[u], length[u]);
            if (length[u] >= threshold) {
                far = true;
                continue;
            }
            // The first to put it into its slot in this phase queues it. Two vertices that take turns in one slot may
            // each be queued twice; that costs a little time, and nothing else.
            const word64_t mark = (word64_t)(k + 1) << 32 | (unsigned)w[u];
            if (atomicExch(recent + w[u] % SPG_RECENT, mark) != mark)
                degree[u] = (unsigned)min(g.row_ptr[w[u] + 1] - g.row_ptr[w[u]], (offset_t)(1 << 18));
        }
        if (__any_sync(SPG_FULL_WARP, far)) {
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                const bool enters = w[u] >= 0 && length[u] >= threshold && enters_far(w[u], s.in_far);
                const unsigned entering = __ballot_sync(SPG_FULL_WARP, enters);
                if (!entering) continue;
                word64_t position = 0;
                if (lane == 0) position = atomicAdd(s.far_count(j), (word64_t)__popc(entering));
                position = __shfl_sync(SPG_FULL_WARP, position, 0);
                if (enters) s.far_pile(j)[position + __popc(entering & below)] = w[u];
            }
        }
        int mine = 0, all = 0;  // places before this lane's, places in all
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            const unsigned wanting = __ballot_sync(SPG_FULL_WARP, degree[u] != 0);
            mine += __popc(wanting & below);
            all += __popc(wanting);
            degrees += degree[u];
        }
        if (all == 0) continue;
        unsigned position = place(all) + mine;
#pragma unroll
        for (int u = 0; u < 4; ++u)
            if (degree[u] != 0) put(position++, w[u]);
    }
    return degrees;
}

// Phases and splits from `at` on for as long as they are small; `at` is where it stopped, with the queue, the tally and
// the far pile in global memory as any other phase leaves them. To be called by all threads of one block, with a grid
// barrier before and after, since others may still be reading the counters.
__device__ __forceinline__ void search_alone(const weighted_graph& g, const search_piles& s, const small_search& small,
                                             long long busy, search_place& at, long long* stamps, int watched)
{
    SPG_SHARED_2D(index_t, near_queue, 2, SPG_NEAR);
    SPG_SHARED(word64_t, recent, SPG_RECENT);
    // What phases that take the whole block queue, by turns: turn t counts in t % 3, which turn t - 1 cleared.
    SPG_SHARED(unsigned, counts, 3);
    SPG_SHARED(unsigned, sums, 3);
    SPG_SHARED(word64_t, shared_tally, 1);
    SPG_SHARED(int, shared_phase, 1);
    SPG_SHARED(long long, shared_relaxed, 1);
    const int lane = threadIdx.x & 31;
    for (int i = threadIdx.x; i < SPG_RECENT; i += blockDim.x) recent[i] = 0;  // no phase queues for phase 0
    if (threadIdx.x == 0) counts[0] = sums[0] = 0;
    int turn = 0;
    for (;;) {
        const word64_t now = load_grid(s.tally(at.k));
        __syncthreads();  // all have read it
        if (now == 0) {
            const word64_t waiting = load_grid(s.far_count(at.j));
            if (waiting == 0 || (long long)waiting > small.waiting) break;
            const int lower = at.threshold;
            raise_threshold(s, at, busy);
            if (threadIdx.x == 0) {
                stamp(stamps, watched, at.k, told_split((long long)waiting, true));
                clear_tally(s, at.k);
                clear_far(s, at.j);
            }
            __syncthreads();
            split_far(g, s, at.k, at.j, lower, at.threshold, 0, 1);
            __syncthreads();
            ++at.k;
            ++at.j;
            at.fresh = 1;
            continue;
        }
        if (!small.holds(now)) break;
        unsigned count = (unsigned)tally_count(now), edges = (unsigned)tally_edges(now);
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) near_queue[at.k & 1][i] = s.queue[s.side(at.k) + i];
        __syncthreads();
        const auto goes_on = [&] { return count != 0 && small.holds(tally_of(count, edges)); };
        do {
            if (count <= 32) {
                // One warp's affair, which needs no barrier at all.
                if (threadIdx.x < 32) {
                    do {
                        if (lane == 0) stamp(stamps, watched, at.k, told_phase(tally_of(count, edges), true));
                        at.relaxed += edges;
                        index_t* out = near_queue[~at.k & 1];
                        offset_t e = 0, end = 0;
                        int from = 0;
                        if (lane < (int)count) {
                            const index_t v = near_queue[at.k & 1][lane];
                            e = g.row_ptr[v];
                            end = g.row_ptr[v + 1];
                            from = load_grid(s.dist + v);
                        }
                        unsigned queued = 0;
                        edges = warp_total(relax_vertices(
                            g, s, e, end, from, at.k, at.j, at.threshold, recent,
                            [&](int all) {
                                queued += all;
                                return queued - all;
                            },
                            [&](unsigned position, index_t w) { out[position] = w; }));
                        count = queued;
                        ++at.k;
                        __syncwarp();
                    } while (count <= 32 && goes_on());
                    if (lane == 0) {
                        shared_tally[0] = tally_of(count, edges);
                        shared_phase[0] = at.k;
                        shared_relaxed[0] = at.relaxed;
                    }
                }
                __syncthreads();
                count = (unsigned)tally_count(shared_tally[0]);
                edges = (unsigned)tally_edges(shared_tally[0]);
                at.k = shared_phase[0];
                at.relaxed = shared_relaxed[0];
                continue;
            }
            const int slot = turn++ % 3;
            if (threadIdx.x == 0) {
                counts[turn % 3] = sums[turn % 3] = 0;
                stamp(stamps, watched, at.k, told_phase(tally_of(count, edges), true));
            }
            at.relaxed += edges;
            index_t* out = near_queue[~at.k & 1];
            unsigned* queued = counts + slot;
            unsigned degrees = 0;
            for (unsigned i = threadIdx.x; i - lane < count; i += blockDim.x) {
                offset_t e = 0, end = 0;
                int from = 0;
                if (i < count) {
                    const index_t v = near_queue[at.k & 1][i];
                    e = g.row_ptr[v];
                    end = g.row_ptr[v + 1];
                    from = load_grid(s.dist + v);
                }
                degrees += relax_vertices(
                    g, s, e, end, from, at.k, at.j, at.threshold, recent,
                    [&](int all) {
                        unsigned position = 0;
                        if (lane == 0) position = atomicAdd(queued, (unsigned)all);
                        return __shfl_sync(SPG_FULL_WARP, position, 0);
                    },
                    [&](unsigned position, index_t w) {
                        if (position < SPG_NEAR)
                            out[position] = w;
                        else
                            s.queue[s.side(at.k + 1) + position] = w;
                    });
            }
            degrees = warp_total(degrees);
            if (lane == 0 && degrees != 0) atomicAdd(sums + slot, degrees);
            __syncthreads();
            ++at.k;
            count = counts[slot];
            edges = sums[slot];
        } while (goes_on());
        at.fresh = 0;
        const word64_t tally = publish_queue(count, near_queue[at.k & 1], g.row_ptr, s.queue + s.side(at.k),
                                             s.start + s.side(at.k), (offset_t*)nullptr);
        if (threadIdx.x == 0) {
            *s.tally(at.k) = tally;
            clear_tally(s, at.k - 1);
        }
        __syncthreads();
    }
}
