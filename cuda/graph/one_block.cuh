// one_block.cuh: levels of a small frontier by one block, without a grid barrier between them.
#pragma once

#include "../common/prefetch.cuh"
#include "levels.cuh"

// On a GPU the lanes of a warp go side by side, so that each may know what it read before any of them writes. The host
// runs one after another: there this makes them meet. Nothing may depend on it: it orders no memory.
#ifdef SPG_HOST
static inline void lanes_together() { __ballot_sync(SPG_FULL_WARP, 1); }
#else
__device__ __forceinline__ void lanes_together() {}
#endif

#define SPG_NEAR 1024    // frontier vertices that fit in shared memory
#define SPG_CLAIMS 2048  // slots that tell duplicates of a thin level apart
#define SPG_ALONE 2      // steps of four edges that a lane takes alone in a thin level

// What a small frontier is: at most `vertices` (never more than SPG_NEAR) with at most `edges` out-edges.
struct small_frontier {
    int vertices;
    long long edges;
    __device__ __forceinline__ bool holds(word64_t tally) const
    {
        return tally_count(tally) <= min(vertices, SPG_NEAR) && tally_edges(tally) <= edges;
    }
};

// A frontier of low degrees: little is lost when a thread takes a vertex with all its edges.
__device__ __forceinline__ bool is_thin(word64_t tally, index_t n)
{
    // Not on tiny graphs: a vertex may get into the queue twice (see claim), which must never fill more than n.
    return n >= 8192 && tally_edges(tally) <= 4 * tally_count(tally) + 64;
}

// Whether this thread is the one that found w in this level: the first to put it into its slot of a table in shared
// memory. No slot need ever be cleared, since a vertex found in an earlier level is not asked for again. Two vertices
// that take turns in one slot may each be found twice; that costs a little time, and nothing else.
__device__ __forceinline__ bool claim(index_t w, index_t* table) { return atomicExch(table + w % SPG_CLAIMS, w) != w; }

// Sum over a warp, for all lanes.
__device__ __forceinline__ unsigned warp_total(unsigned value)
{
#if defined(SPG_HOST) || __CUDA_ARCH__ >= 800
    return __reduce_add_sync(SPG_FULL_WARP, value);
#else
    return warp_sum(value);
#endif
}

// One warp's part of a thin level: a lane takes the vertex with the edges from `e` to `end`, four at a time, so that
// their neighbours, what is known of those, and the degrees of the new ones are each waited for once; a frontier that
// is thin on average may have a long row still, whose rest the warp takes together. `place`
// gives the first of so many places in the queue to the whole warp, `put` stores a vertex there. Returns the degrees
// found by this lane (each counted as a million at most: more is not thin anyway). All lanes come together.
template <class Place, class Put>
__device__ __forceinline__ unsigned thin_vertices(index_t n, offset_t edges_in_all, offset_t e, offset_t end, int k,
                                                  const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                                  int* level, unsigned* visited, index_t* table, Place place, Put put)
{
    const int lane = threadIdx.x & 31;
    const unsigned below = (1u << lane) - 1;
    unsigned degrees = 0;
    const auto found_at = [&](const index_t(&w)[4]) {
        int known[4];
        unsigned degree[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) known[u] = w[u] >= 0 ? load_block(level + w[u]) : 0;
        lanes_together();
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            degree[u] = 0;
            if (known[u] >= 0 || !claim(w[u], table)) continue;
            store_block(level + w[u], k + 1);
            atomicOr(visited + w[u] / 32, 1u << w[u] % 32);
            const offset_t from = row_ptr[w[u]];
            degree[u] = (unsigned)min(row_ptr[w[u] + 1] - from, (offset_t)(1 << 20));
            // A wave that moves along neighbouring numbers (a mesh, a chain) comes into new lines of memory every 32
            // levels: the next ones are asked for when it enters one.
            if (w[u] % 32 == 0 && w[u] + 64 < n) {
                prefetch(level + w[u] + 32);
                prefetch(row_ptr + w[u] + 32);
                const offset_t ahead = from + 32 * min((offset_t)degree[u], (offset_t)8);
                for (int line = 0; line < (int)min(degree[u], 8u) && ahead + 32 * line < edges_in_all; ++line)
                    prefetch(col + ahead + 32 * line);
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
        if (all == 0) return;
        unsigned position = place(all) + mine;
#pragma unroll
        for (int u = 0; u < 4; ++u)
            if (degree[u] != 0) put(position++, w[u]);
    };
    for (int step = 0; step < SPG_ALONE && __any_sync(SPG_FULL_WARP, e < end); ++step, e += 4) {
        index_t w[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) w[u] = e + u < end ? col[e + u] : -1;
        found_at(w);
    }
    // What is left of long rows is the whole warp's, 128 edges at a time: one lane would hold up the level.
    for (unsigned open = __ballot_sync(SPG_FULL_WARP, e < end); open; open &= open - 1) {
        const int owner = __ffs((int)open) - 1;
        const offset_t last = __shfl_sync(SPG_FULL_WARP, end, owner);
        for (offset_t from = __shfl_sync(SPG_FULL_WARP, e, owner); from < last;
             from += min((offset_t)128, last - from)) {
            index_t w[4];
#pragma unroll
            for (int u = 0; u < 4; ++u) w[u] = 32 * u + lane < last - from ? col[from + 32 * u + lane] : -1;
            found_at(w);
        }
    }
    return degrees;
}

// A queue of which the first SPG_NEAR vertices are in shared memory (`near`) and the rest in global memory: all of it
// to global memory, with the edge offsets that others need (to `near_start` as well, where that is given), and its
// tally. A prefix sum of the degrees in queue order, by the first warp: the queue is short. By all threads of one
// block.
__device__ __forceinline__ word64_t publish_queue(unsigned count, const index_t* near,
                                                  const offset_t* __restrict__ row_ptr, index_t* queue, offset_t* start,
                                                  offset_t* near_start)
{
    SPG_SHARED(word64_t, result, 1);
    if (threadIdx.x < 32) {
        const int lane = threadIdx.x;
        offset_t before = 0;
        for (unsigned base = 0; base < count; base += 32) {
            const unsigned i = base + lane;
            index_t v = 0;
            offset_t degree = 0;
            if (i < count) {
                v = i < SPG_NEAR ? near[i] : queue[i];
                degree = row_ptr[v + 1] - row_ptr[v];
            }
            offset_t sum = degree;  // not by warp_inclusive_sum, with which ptxas allots other registers to the whole
            for (int distance = 1; distance < 32; distance *= 2) {
                const offset_t below = __shfl_up_sync(SPG_FULL_WARP, sum, distance);
                if (lane >= distance) sum += below;
            }
            if (i < count) {
                queue[i] = v;
                start[i] = before + sum - degree;
                if (near_start && i < SPG_NEAR) near_start[i] = before + sum - degree;
            }
            before += __shfl_sync(SPG_FULL_WARP, sum, 31);
        }
        if (lane == 0) result[0] = count ? tally_of(count, before) : 0;
    }
    __syncthreads();
    return result[0];
}

// Thin levels from k on, for as long as they are thin and small; returns the level it stopped before, and in `now`
// its tally. The queue is then in near_queue / near_start and in global memory, as after any other level.
//
// Waiting is all that such a level costs (2,000 of them on a grid graph of 1,000 x 1,000), so nothing in it goes to L2
// and comes back where L1 can answer: what is visited is asked of `level`, since only this block works on the graph;
// duplicates are distinguished in shared memory; the bits of `visited` are set by atomics that no thread waits for. A
// frontier of 32 vertices is one warp's affair, which needs no barrier at all.
__device__ __forceinline__ int thin_levels(index_t n, int k, small_frontier small, word64_t& now,
                                           const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                           int* level, unsigned* visited, index_t* queue, offset_t* start,
                                           index_t* near_queue, offset_t* near_start, long long& unexplored,
                                           long long* trace, int trace_levels, int how)
{
    SPG_SHARED(index_t, table, SPG_CLAIMS);
    // What the levels that take the whole block have found, by turns: turn t counts in t % 3, which turn t - 1 cleared,
    // one block barrier after the last look at what turn t - 3 left there. A level of one warp touches neither: other
    // warps may still be about to look at the turn before it.
    SPG_SHARED(unsigned, counts, 3);  // vertices
    SPG_SHARED(unsigned, sums, 3);  // their edges
    SPG_SHARED(word64_t, shared_now, 1);  // of the level after those of one warp
    SPG_SHARED(long long, shared_unexplored, 1);
    SPG_SHARED(int, shared_level, 1);
    const int lane = threadIdx.x & 31;
    const offset_t edges_in_all = row_ptr[n];
    for (int i = threadIdx.x; i < SPG_CLAIMS; i += blockDim.x) table[i] = -1;
    if (threadIdx.x == 0) counts[0] = sums[0] = 0;
    __syncthreads();
    int turn = 0;
    unsigned count = (unsigned)tally_count(now), edges = (unsigned)tally_edges(now);
    const auto goes_on = [&] {
        const word64_t tally = count ? tally_of(count, edges) : 0;
        return tally != 0 && small.holds(tally) && is_thin(tally, n);
    };
    const auto note = [&] {
        if (threadIdx.x == 0 && k < trace_levels) {
            trace[2 * k] = spg_nanoseconds();
            trace[2 * k + 1] = how;
        }
    };
    do {
        if (count <= 32) {
            if (threadIdx.x < 32) {
                do {
                    note();
                    unexplored -= edges;
                    index_t* out = near_queue + (~k & 1) * SPG_NEAR;
                    offset_t e = 0, end = 0;
                    if (lane < (int)count) {
                        const index_t v = near_queue[(k & 1) * SPG_NEAR + lane];
                        e = row_ptr[v];
                        end = row_ptr[v + 1];
                    }
                    unsigned found = 0;
                    edges = warp_total(thin_vertices(
                        n, edges_in_all, e, end, k, row_ptr, col, level, visited, table,
                        [&](int all) {
                            found += all;
                            return found - all;
                        },
                        [&](unsigned position, index_t w) { out[position] = w; }));
                    count = found;
                    ++k;
                    __syncwarp();
                } while (count <= 32 && goes_on());
                if (lane == 0) {
                    shared_now[0] = tally_of(count, edges);
                    shared_unexplored[0] = unexplored;
                    shared_level[0] = k;
                }
            }
            __syncthreads();
            count = (unsigned)tally_count(shared_now[0]);
            edges = (unsigned)tally_edges(shared_now[0]);
            unexplored = shared_unexplored[0];
            k = shared_level[0];
            continue;
        }
        const int slot = turn++ % 3;
        if (threadIdx.x == 0) counts[turn % 3] = sums[turn % 3] = 0;
        note();
        unexplored -= edges;
        const index_t* in = near_queue + (k & 1) * SPG_NEAR;
        index_t* out = near_queue + (~k & 1) * SPG_NEAR;
        unsigned* found = counts + slot;
        unsigned degrees = 0;
        for (unsigned i = threadIdx.x; i - lane < count; i += blockDim.x) {
            offset_t e = 0, end = 0;
            if (i < count) {
                const index_t v = in[i];
                e = row_ptr[v];
                end = row_ptr[v + 1];
            }
            degrees += thin_vertices(
                n, edges_in_all, e, end, k, row_ptr, col, level, visited, table,
                [&](int all) {
                    unsigned position = 0;
                    if (lane == 0) position = atomicAdd(found, (unsigned)all);
                    return __shfl_sync(SPG_FULL_WARP, position, 0);
                },
                [&](unsigned position, index_t w) {
                    if (position < SPG_NEAR)
                        out[position] = w;
                    else
                        queue[(long long)(~k & 1) * n + position] = w;
                });
        }
        degrees = warp_total(degrees);
        if (lane == 0 && degrees != 0) atomicAdd(sums + slot, degrees);
        __syncthreads();
        ++k;
        count = counts[slot];
        edges = sums[slot];
    } while (goes_on());
    now = publish_queue(count, near_queue + (k & 1) * SPG_NEAR, row_ptr, queue + (long long)(k & 1) * n,
                        start + (long long)(k & 1) * n, near_start + (k & 1) * SPG_NEAR);
    return k;
}

// Runs level after level from level k on, as long as the frontier is small and not empty; returns the level it
// stopped before, whose queue is then in global memory as any other level's and whose tally is in `after`. That is
// not `tally`, because other blocks may not have read that yet, although this one is done. `unexplored` is lowered
// by the edges of the levels done. To be called by all threads of one block, after a grid barrier.
//
// The queue is in shared memory; each level costs one block barrier. A level may find more vertices than fit there
// (one hub is enough): every vertex goes to the global queue as well, so nothing is lost, and the block stops.
__device__ __forceinline__ int one_block_levels(index_t n, int k, small_frontier small,
                                                const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                                int* level, unsigned* visited, index_t* queue, offset_t* start,
                                                const word64_t* tally, word64_t* after, long long& unexplored,
                                                long long* trace, int trace_levels, int how)
{
    SPG_SHARED_2D(index_t, near_queue, 2, SPG_NEAR);
    SPG_SHARED_2D(offset_t, near_start, 2, SPG_NEAR);
    SPG_SHARED(word64_t, near_tally, 3);
    word64_t now = tally[k % 3];
    for (long long i = threadIdx.x; i < tally_count(now); i += blockDim.x) {
        near_queue[k & 1][i] = queue[(long long)(k & 1) * n + i];
        near_start[k & 1][i] = start[(long long)(k & 1) * n + i];
    }
    if (threadIdx.x == 0) {
        near_tally[k % 3] = now;
        near_tally[(k + 1) % 3] = 0;
    }
    __syncthreads();
    while (now != 0 && small.holds(now)) {
        if (is_thin(now, n)) {
            k = thin_levels(n, k, small, now, row_ptr, col, level, visited, queue, start, &near_queue[0][0],
                            &near_start[0][0], unexplored, trace, trace_levels, how);
            if (threadIdx.x == 0) near_tally[(k + 1) % 3] = 0;
            __syncthreads();
            continue;
        }
        if (threadIdx.x == 0) {
            near_tally[(k + 2) % 3] = 0;
            if (k < trace_levels) {
                trace[2 * k] = spg_nanoseconds();
                trace[2 * k + 1] = how;
            }
        }
        const int next = ~k & 1;
        unexplored -= tally_edges(now);
        expand_edges(near_queue[k & 1], near_start[k & 1], now, row_ptr, col, threadIdx.x / 32, blockDim.x / 32,
                     [&](bool active, index_t, index_t w) {
                         // Asked for before it is known to be wanted: a level is short, waiting is what it costs.
                         offset_t degree = active ? row_ptr[w + 1] - row_ptr[w] : 0;
                         const bool won = active && visit<true>(w, visited);
                         if (won) level[w] = k + 1;
                         if (!won) degree = 0;
                         long long position = 0;
                         offset_t before = 0;
                         reserve(degree, near_tally + (k + 1) % 3, position, before);
                         if (degree == 0) return;
                         if (position < SPG_NEAR) {
                             near_queue[next][position] = w;
                             near_start[next][position] = before;
                         }
                         queue[(long long)next * n + position] = w;
                         start[(long long)next * n + position] = before;
                     });
        __syncthreads();
        ++k;
        now = near_tally[k % 3];
    }
    if (threadIdx.x == 0) {
        after[k % 3] = now;
        after[(k + 1) % 3] = 0;
    }
    return k;
}
