// paths_alone.cuh: levels of paths.cuh by one block, for as long as frontiers are small and of low degree, without a grid
// barrier between them. A long thin graph (a lattice, a chain, a road) has thousands of such levels, forward and back.
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
// other level's. `first` is moved on to where that begins, `unexplored` is lowered by the edges of the levels done. To be
// called by all threads of one block, after a grid barrier.
//
// The frontier lies in shared memory with its rows, so a level waits for a column, for a level (L1 may answer: an old
// answer can only be -1, which the compare-and-swap then sets right), and for the claim. Counts are added by atomics that
// nobody waits for. Four lanes share a vertex, so that they read its columns from one line, and each has four vertices under
// way at a time.
__device__ __forceinline__ int push_paths_alone(int k, small_frontier small, const offset_t* __restrict__ row_ptr,
                                                const index_t* __restrict__ col, int* level, path_sums* paths,
                                                int* scale, index_t* queue, offset_t* start, word64_t* tally,
                                                long long& first, long long& unexplored, long long* stamps,
                                                int watched)
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
        for (int base = 0; base < count; base += blockDim.x) {
            int i[4];  // this lane's place in the frontier for each of four vertices
            offset_t e[4], end[4];
            bool more = false;
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                i[u] = base + u * (blockDim.x / 4) + threadIdx.x / 4;
                e[u] = end[u] = 0;
                if (i[u] >= count) continue;
                e[u] = near_begin[k & 1][i[u]] + (lane & 3);
                end[u] = near_begin[k & 1][i[u]] + near_degree[k & 1][i[u]];
                more |= e[u] < end[u];
            }
            while (__any_sync(SPG_FULL_WARP, more)) {
                index_t w[4];
                int there[4];
                bool won[4];
                offset_t begins[4];
                int degree[4];
                double given[4];
#pragma unroll
                for (int u = 0; u < 4; ++u) w[u] = e[u] < end[u] ? col[e[u]] : -1;
#pragma unroll
                for (int u = 0; u < 4; ++u)
                    given[u] = w[u] >= 0 ? passed_on(near_vertex[k & 1][i[u]], k, factor, paths, scale) : 0.0;
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
                    if (won[u] || there[u] == k + 1) atomicAdd(&paths[w[u]].count, given[u]);
                    begins[u] = degree[u] = 0;
                    if (!won[u]) continue;
                    begins[u] = row_ptr[w[u]];
                    degree[u] = (int)(row_ptr[w[u] + 1] - begins[u]);
                }
                more = false;
#pragma unroll
                for (int u = 0; u < 4; ++u) {
                    if (degree[u] > 0) mine += tally_of(1, degree[u]);
                    e[u] += 4;
                    more |= e[u] < end[u];
                }
                if (!__any_sync(SPG_FULL_WARP, mine != 0)) continue;
                word64_t upto = mine;
                for (int distance = 1; distance < 32; distance *= 2) {
                    const word64_t below = __shfl_up_sync(SPG_FULL_WARP, upto, distance);
                    if (lane >= distance) upto += below;
                }
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

// Backward from level k down to level 1, while frontiers fit; returns the level it stopped before (0: all done), which is
// the one that ends at queue[first]. Four lanes share a vertex and each has four under way, as forward; a lane fetches one
// of the four, and the one it has in the level to come meanwhile.
__device__ __forceinline__ int gather_shares_alone(int k, small_frontier small, const offset_t* __restrict__ row_ptr,
                                                   const index_t* __restrict__ col, const int* level,
                                                   path_sums* paths, const int* scale, const index_t* queue,
                                                   const word64_t* tally, long long& first, long long* stamps,
                                                   int watched)
{
    const int lane = threadIdx.x & 31;
    const int place = (threadIdx.x & 3) * (blockDim.x / 4) + threadIdx.x / 4;  // of the vertex that this lane fetches
    word64_t now = tally[k], next = tally[k - 1];
    index_t ahead = 0;
    offset_t ahead_begin = 0, ahead_end = 0;
    if (place < tally_count(now)) {
        ahead = queue[first - tally_count(now) + place];
        ahead_begin = row_ptr[ahead];
        ahead_end = row_ptr[ahead + 1];
    }
    while (k >= 1 && fits_block(now, small)) {
        const int count = (int)tally_count(now);
        first -= count;
        if (threadIdx.x == 0) stamp(stamps, watched, k, 2);
        const double factor = backward_factor(scale, k);
        index_t v = ahead;
        offset_t begin = ahead_begin, stop = ahead_end;
        const word64_t after_next = k >= 2 ? tally[k - 2] : 0;
        const bool more = k >= 2 && place < tally_count(next);
        ahead_begin = ahead_end = 0;
        if (more) ahead = queue[first - tally_count(next) + place];
        for (int base = 0; base < count; base += blockDim.x) {
            if (base > 0) {
                begin = stop = 0;
                if (base + place < count) {
                    v = queue[first + base + place];
                    begin = row_ptr[v];
                    stop = row_ptr[v + 1];
                }
            }
            if (!__any_sync(SPG_FULL_WARP, begin < stop)) continue;
            offset_t e[4], end[4];
            double sum[4];
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                e[u] = __shfl_sync(SPG_FULL_WARP, begin, (lane & 28) + u) + (lane & 3);
                end[u] = __shfl_sync(SPG_FULL_WARP, stop, (lane & 28) + u);
                sum[u] = 0;
            }
            while (e[0] < end[0] || e[1] < end[1] || e[2] < end[2] || e[3] < end[3]) {
                index_t w[4];
                bool after[4];
#pragma unroll
                for (int u = 0; u < 4; ++u) w[u] = e[u] < end[u] ? col[e[u]] : -1;
#pragma unroll
                for (int u = 0; u < 4; ++u) after[u] = w[u] >= 0 && level[w[u]] == k + 1;
#pragma unroll
                for (int u = 0; u < 4; ++u) {
                    if (after[u]) sum[u] += share_of(w[u], paths);
                    e[u] += 4;
                }
            }
            __syncwarp();
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                sum[u] += __shfl_xor_sync(SPG_FULL_WARP, sum[u], 1);
                sum[u] += __shfl_xor_sync(SPG_FULL_WARP, sum[u], 2);
            }
            const double both = lane & 1 ? sum[1] : sum[0], other = lane & 1 ? sum[3] : sum[2];
            if (begin < stop) paths[v].sum = (lane & 2 ? other : both) * factor;
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
