// paths_alone.cuh: levels of paths.cuh by one block, for as long as frontiers are small and of low degree, without a
// grid barrier between them. A long thin graph (grid graph, chain, road) has thousands of such levels, forward and
// back.
#pragma once

#include "one_block.cuh"
#include "paths.cuh"
#include "stamps.cuh"

// A frontier for one block: few vertices and edges, and a thread may take a vertex with all its edges.
__device__ __forceinline__ bool fits_block(word64_t tally, small_frontier small)
{
    return small.holds(tally) && tally_edges(tally) <= 4 * tally_count(tally) + 64;
}

// Forward from level k on; returns the level it stopped before, whose frontier and tally are in global memory as any
// other level's. `first` is moved on to where that begins, `unexplored` is lowered by the edges of the levels done. To
// be called by all threads of one block, after a grid barrier.
//
// The frontier is in shared memory with its rows, so a level waits for a column, for a level (L1 may answer: an old
// answer can only be -1, which the compare-and-swap then sets right), and for the claim. Counts are added by atomics
// that no thread waits for. A thread looks at four edges at a time.
__device__ __forceinline__ int push_paths_alone(int k, small_frontier small, const offset_t* __restrict__ row_ptr,
                                                const index_t* __restrict__ col, int* level, path_sums* paths,
                                                int* scale, index_t* queue, offset_t* start, word64_t* tally,
                                                long long& first, long long& unexplored, long long* stamps, int watched)
{
    SPG_SHARED_2D(index_t, near_vertex, 2, SPG_NEAR);
    SPG_SHARED_2D(offset_t, near_begin, 2, SPG_NEAR);
    SPG_SHARED_2D(int, near_degree, 2, SPG_NEAR);
    SPG_SHARED(word64_t, found, 3);  // by level: one is read, one counts, one is cleared
    const int lane = threadIdx.x & 31;
    word64_t now = tally[k];
    for (int i = threadIdx.x; i < (int)tally_count(now); i += blockDim.x) {
        const index_t v = queue[first + i];
        near_vertex[k & 1][i] = v;
        near_begin[k & 1][i] = row_ptr[v];
        near_degree[k & 1][i] = (int)(row_ptr[v + 1] - row_ptr[v]);
    }
    if (threadIdx.x == 0) found[(k + 1) % 3] = 0;
    __syncthreads();
    while (now != 0 && fits_block(now, small)) {
        const int count = (int)tally_count(now), next = ~k & 1;
        const long long beyond = first + count;
        const double factor = forward_factor(scale, k);
        if (threadIdx.x == 0) {
            found[(k + 2) % 3] = 0;
            mark_level(scale, k, factor);
            stamp(stamps, watched, k, 2);
        }
        for (int i = threadIdx.x; i - lane < count; i += blockDim.x) {
            offset_t e = 0, end = 0;
            double given = 0;
            if (i < count) {
                e = near_begin[k & 1][i];
                end = e + near_degree[k & 1][i];
                given = passed_on(near_vertex[k & 1][i], k, factor, paths, scale);
            }
            for (; __any_sync(SPG_FULL_WARP, e < end); e += 4) {
                index_t w[4];
                int there[4];
                bool won[4];
                offset_t begins[4];
                int degree[4];
#pragma unroll
                for (int u = 0; u < 4; ++u) w[u] = e + u < end ? col[e + u] : -1;
#pragma unroll
                for (int u = 0; u < 4; ++u) there[u] = w[u] >= 0 ? load_block(level + w[u]) : -2;
#pragma unroll
                for (int u = 0; u < 4; ++u) {
                    won[u] = false;
                    if (there[u] != -1) continue;
                    there[u] = atomicCAS(level + w[u], -1, k + 1);
                    won[u] = there[u] == -1;
                }
                word64_t mine = 0;
#pragma unroll
                for (int u = 0; u < 4; ++u) {
                    if (won[u] || there[u] == k + 1) atomicAdd(&paths[w[u]].count, given);
                    begins[u] = degree[u] = 0;
                    if (!won[u]) continue;
                    begins[u] = row_ptr[w[u]];
                    degree[u] = (int)(row_ptr[w[u] + 1] - begins[u]);
                }
#pragma unroll
                for (int u = 0; u < 4; ++u)
                    if (degree[u] > 0) mine += tally_of(1, degree[u]);
                if (!__any_sync(SPG_FULL_WARP, mine != 0)) continue;
                const word64_t upto = warp_inclusive_sum(mine);
                word64_t place = 0;
                if (lane == 31) place = atomicAdd(&found[(k + 1) % 3], upto);
                place = __shfl_sync(SPG_FULL_WARP, place, 31) + upto - mine;
#pragma unroll
                for (int u = 0; u < 4; ++u) {
                    if (degree[u] == 0) continue;
                    const long long position = tally_count(place);
                    if (position < SPG_NEAR) {
                        near_vertex[next][position] = w[u];
                        near_begin[next][position] = begins[u];
                        near_degree[next][position] = degree[u];
                    }
                    queue[beyond + position] = w[u];
                    start[beyond + position] = (offset_t)tally_edges(place);
                    place += tally_of(1, degree[u]);
                }
            }
        }
        __syncthreads();
        first = beyond;
        unexplored -= tally_edges(now);
        ++k;
        now = found[k % 3];
        if (threadIdx.x == 0) tally[k] = now;
    }
    if (threadIdx.x == 0) tally[k + 1] = 0;
    return k;
}

// Backward from level k down to level 1, while frontiers fit; returns the level it stopped before (0: all done), which
// is the one that ends at queue[first]. A thread sums the shares of a vertex's successors, four at a time; the vertex
// that it has in the level to come is fetched meanwhile.
__device__ __forceinline__ int gather_shares_alone(int k, small_frontier small, const offset_t* __restrict__ row_ptr,
                                                   const index_t* __restrict__ col, const int* level, path_sums* paths,
                                                   const int* scale, const index_t* queue, const word64_t* tally,
                                                   long long& first, long long* stamps, int watched)
{
    word64_t now = tally[k], next = tally[k - 1];
    index_t ahead = 0;
    offset_t ahead_begin = 0, ahead_end = 0;
    if (threadIdx.x < tally_count(now)) {
        ahead = queue[first - tally_count(now) + threadIdx.x];
        ahead_begin = row_ptr[ahead];
        ahead_end = row_ptr[ahead + 1];
    }
    while (k >= 1 && fits_block(now, small)) {
        const int count = (int)tally_count(now);
        first -= count;
        if (threadIdx.x == 0) stamp(stamps, watched, k, 2);
        const double factor = backward_factor(scale, k);
        index_t v = ahead;
        offset_t e = ahead_begin, end = ahead_end;
        const word64_t after_next = k >= 2 ? tally[k - 2] : 0;
        const bool more = k >= 2 && threadIdx.x < tally_count(next);
        if (more) ahead = queue[first - tally_count(next) + threadIdx.x];
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            if (i != threadIdx.x) {
                v = queue[first + i];
                e = row_ptr[v];
                end = row_ptr[v + 1];
            }
            double sum = 0;
            for (; e < end; e += 4) {
                index_t w[4];
                bool below[4];
#pragma unroll
                for (int u = 0; u < 4; ++u) w[u] = e + u < end ? col[e + u] : -1;
#pragma unroll
                for (int u = 0; u < 4; ++u) below[u] = w[u] >= 0 && level[w[u]] == k + 1;
#pragma unroll
                for (int u = 0; u < 4; ++u)
                    if (below[u]) sum += share_of(w[u], paths);
            }
            paths[v].sum = sum * factor;
        }
        if (more) {
            ahead_begin = row_ptr[ahead];
            ahead_end = row_ptr[ahead + 1];
        }
        __syncthreads();
        --k;
        now = next;
        next = after_next;
    }
    return k;
}
