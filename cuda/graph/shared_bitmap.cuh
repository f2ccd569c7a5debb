// shared_bitmap.cuh: levels of a small frontier by one block, the bitmap of visited vertices in its shared memory.
//
// Layout   near, dynamic shared memory, shared_bitmap_bytes(n): index_t [2][SPG_NEAR], the frontier by k % 2, then the
//          words of the bitmap.
// Mapping  four lanes per vertex, eight vertices per warp and step. So two lanes read both ends of a row, and a row of
//          four edges is one or two sectors for its four lanes: a load of a warp touches 8 to 16 lines, not 32. One
//          shared atomicOr tells whether a neighbour is new and claims it: each vertex is found once. What a level
//          waits for in L2 is row_ptr and col of the frontier, nothing else.
// Wins     over one_block.cuh where degrees are small and alike and the bitmap fits: grid graphs, roads, chains.
// Loses    on rows of many edges (four lanes walk them), and where it is begun and ended often: the bitmap is copied
//          in, and out again where the grid takes over. The host chooses it (variants/bfs), by the degrees.
#pragma once

#include "one_block.cuh"

// Four lanes of a warp take the vertex in[first + r * stride + lane / 4] for each r < ROUNDS, where that is below
// `count`. All ROUNDS are waited for together. `place` gives the first of so many places to the whole warp, `put`
// stores a vertex there. Adds to `edges` the out-edges of these vertices; the four lanes' sum is their number.
template <int ROUNDS, bool AHEAD, class Place, class Put>
__device__ __forceinline__ void quad_rounds(const index_t* in, unsigned first, unsigned stride, unsigned count, int k,
                                            index_t n, const offset_t* __restrict__ row_ptr,
                                            const index_t* __restrict__ col, int* level, unsigned* seen,
                                            unsigned& edges, Place place, Put put)
{
    const unsigned lane = threadIdx.x & 31, own = lane & 3, below = (1u << lane) - 1;
    const offset_t edges_in_all = row_ptr[n];
    offset_t at[ROUNDS], end[ROUNDS];
    index_t vertex[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        const unsigned i = first + r * stride + lane / 4;
        vertex[r] = i < count ? in[i] : -1;
        at[r] = i < count ? row_ptr[vertex[r] + (own & 1)] : 0;
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        end[r] = __shfl_sync(SPG_FULL_WARP, at[r], (int)(lane | 3));
        at[r] = __shfl_sync(SPG_FULL_WARP, at[r], (int)(lane & ~3u)) + (offset_t)own;
        // A chain that moves along rising numbers comes into new lines of memory every 32 levels: the next ones are
        // asked for when it enters one. Wider waves only have more to do: measured on a grid graph.
        if (!AHEAD || vertex[r] < 0 || vertex[r] % 32 != 0 || vertex[r] >= n - 64) continue;
        if (own == 0) prefetch(row_ptr + vertex[r] + 32);
        const offset_t ahead = at[r] + 32 * (end[r] - at[r]) + (offset_t)(31 * own);
        if (ahead < edges_in_all) prefetch(col + ahead);
    }
    for (;;) {
        index_t w[ROUNDS];
        unsigned old[ROUNDS];
        bool more = false;
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r) w[r] = at[r] < end[r] ? col[at[r]] : -1;
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            old[r] = w[r] >= 0 ? atomicOr(seen + w[r] / 32, 1u << w[r] % 32) >> w[r] % 32 & 1 : 1;
        unsigned mine = 0, all = 0;  // places before this lane's, places in all
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r) {
            const unsigned wanting = __ballot_sync(SPG_FULL_WARP, old[r] == 0);
            mine += __popc(wanting & below);
            all += __popc(wanting);
            edges += w[r] >= 0;
            at[r] += 4;
            more = more || at[r] < end[r];
        }
        if (all != 0) {
            unsigned position = place(all) + mine;
#pragma unroll
            for (int r = 0; r < ROUNDS; ++r) {
                if (old[r] != 0) continue;
                level[w[r]] = k + 1;
                put(position++, w[r]);
            }
        }
        if (!__any_sync(SPG_FULL_WARP, more)) break;
    }
}

// The same for all vertices from `first` on that are less than 4 * stride after it, in as few rounds as it takes:
// an empty round costs nearly as much as a full one.
template <class Place, class Put>
__device__ __forceinline__ void quad_vertices(const index_t* in, unsigned first, unsigned stride, unsigned count, int k,
                                              index_t n, const offset_t* __restrict__ row_ptr,
                                              const index_t* __restrict__ col, int* level, unsigned* seen,
                                              unsigned& edges, Place place, Put put)
{
    const unsigned left = count - first;
    if (left <= stride)
        quad_rounds<1, false>(in, first, stride, count, k, n, row_ptr, col, level, seen, edges, place, put);
    else if (left <= 2 * stride)
        quad_rounds<2, false>(in, first, stride, count, k, n, row_ptr, col, level, seen, edges, place, put);
    else if (left <= 3 * stride)
        quad_rounds<3, false>(in, first, stride, count, k, n, row_ptr, col, level, seen, edges, place, put);
    else
        quad_rounds<4, false>(in, first, stride, count, k, n, row_ptr, col, level, seen, edges, place, put);
}

// As one_block_levels (see there for what is left behind and why), with `near` as laid out above. The block goes on
// while the frontier has no more than small.vertices, and no more than small.edges at the graph's mean degree: edges
// are not counted ahead, since the degrees of the vertices found are read when it is their turn.
//
// `level` has one writer per vertex and no reader before the block's end. `visited` is not touched until then.
__device__ __forceinline__ int shared_bitmap_levels(index_t n, int k, small_frontier small,
                                                    const offset_t* __restrict__ row_ptr,
                                                    const index_t* __restrict__ col, int* level, unsigned* visited,
                                                    index_t* queue, offset_t* start, const word64_t* tally,
                                                    word64_t* after, index_t* near, long long& unexplored,
                                                    long long* trace, int trace_levels, int how)
{
    // What the levels that take the whole block have found, by turns, as in thin_levels.
    SPG_SHARED(unsigned, counts, 3);
    SPG_SHARED(int, shared_level, 1);        // after levels of one warp
    SPG_SHARED(unsigned, shared_count, 1);
    SPG_SHARED(word64_t, shared_tally, 1);   // of the level that this ends before
    SPG_SHARED(word64_t, shared_edges, 1);   // out-edges of all levels done here
    const int lane = threadIdx.x & 31;
    unsigned* seen = (unsigned*)(near + 2 * SPG_NEAR);
    const long long mean = max((long long)row_ptr[n] / n, 1ll);
    const unsigned limit = (unsigned)min((long long)min(small.vertices, SPG_NEAR), small.edges / mean);
    unsigned count = (unsigned)tally_count(tally[k % 3]);
    for (long long i = threadIdx.x; i < words_of(n); i += blockDim.x) seen[i] = visited[i];
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        near[(k & 1) * SPG_NEAR + i] = queue[(long long)(k & 1) * n + i];
    if (threadIdx.x == 0) {
        counts[0] = 0;
        shared_tally[0] = shared_edges[0] = 0;
    }
    __syncthreads();
    int turn = 0;
    unsigned edges = 0;  // that this lane looked at, all levels
    unsigned last = 0;   // the same before the last level
    const auto note = [&] {
        if (threadIdx.x == 0 && k < trace_levels) {
            trace[2 * k] = spg_nanoseconds();
            trace[2 * k + 1] = how;
        }
    };
    // What does not fit goes to the global queue's other side, which is not read: level k is in shared memory.
    const auto put = [&](unsigned position, index_t w) {
        if (position < SPG_NEAR)
            near[(~k & 1) * SPG_NEAR + position] = w;
        else
            queue[(long long)(k & 1) * n + position] = w;
    };
    word64_t now;
    for (;;) {
        do {
            const index_t* in = near + (k & 1) * SPG_NEAR;
            last = edges;
            if (count <= 32) {
                if (threadIdx.x < 32) {
                    do {
                        in = near + (k & 1) * SPG_NEAR;
                        last = edges;
                        note();
                        unsigned found = 0;
                        const auto place = [&](unsigned all) {
                            found += all;
                            return found - all;
                        };
                        if (count <= 8)
                            quad_rounds<1, true>(in, 0, 8, count, k, n, row_ptr, col, level, seen, edges, place, put);
                        else
                            quad_vertices(in, 0, 8, count, k, n, row_ptr, col, level, seen, edges, place, put);
                        count = found;
                        ++k;
                        __syncwarp();
                    } while (count != 0 && count <= min(limit, 32u));
                    if (lane == 0) {
                        shared_count[0] = count;
                        shared_level[0] = k;
                    }
                }
                __syncthreads();
                count = shared_count[0];
                k = shared_level[0];
                continue;
            }
            const int slot = turn++ % 3;
            if (threadIdx.x == 0) counts[turn % 3] = 0;
            note();
            const unsigned stride = blockDim.x / 4, mine = threadIdx.x / 32 * 8;
            const auto place = [&](unsigned all) {
                unsigned position = 0;
                if (lane == 0) position = atomicAdd(counts + slot, all);
                return __shfl_sync(SPG_FULL_WARP, position, 0);
            };
            for (unsigned first = mine; first < count; first += 4 * stride)
                quad_vertices(in, first, stride, count, k, n, row_ptr, col, level, seen, edges, place, put);
            __syncthreads();
            ++k;
            count = counts[slot];
        } while (count != 0 && count <= limit);
        // Vertices without out-edges are distinguished only now. A last level of nothing else is none.
        if (!__syncthreads_or(edges != last)) --k;
        now = 0;
        if (count == 0) break;
        for (unsigned base = threadIdx.x & ~31u; base < count; base += blockDim.x) {
            const unsigned i = base + lane;
            index_t v = 0;
            if (i < count) v = i < SPG_NEAR ? near[(k & 1) * SPG_NEAR + i] : queue[(long long)(~k & 1) * n + i];
            const offset_t degree = i < count ? row_ptr[v + 1] - row_ptr[v] : 0;
            long long position = 0;
            offset_t before = 0;
            reserve(degree, shared_tally, position, before);
            if (degree > 0) {
                queue[(long long)(k & 1) * n + position] = v;
                start[(long long)(k & 1) * n + position] = before;
            }
        }
        __syncthreads();
        now = shared_tally[0];
        if (now == 0 || !small.holds(now)) break;
        // Without them the frontier is small after all. The others have not been told of a hand-over, so it is not one.
        count = (unsigned)tally_count(now);
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
            near[(k & 1) * SPG_NEAR + i] = queue[(long long)(k & 1) * n + i];
        __syncthreads();
        if (threadIdx.x == 0) shared_tally[0] = 0;
    }
    const unsigned looked = warp_total(edges);
    if (lane == 0 && looked != 0) atomicAdd(shared_edges, (word64_t)looked);
    if (now != 0)
        for (long long i = threadIdx.x; i < words_of(n); i += blockDim.x) visited[i] = seen[i];
    __syncthreads();
    unexplored -= (long long)shared_edges[0];
    if (threadIdx.x == 0) {
        after[k % 3] = now;
        after[(k + 1) % 3] = 0;
    }
    return k;
}
