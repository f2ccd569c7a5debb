// paths.cuh: one level of Brandes' betweenness by the whole grid, forward and back; see path_sums.cuh for the numbers.
//
// Layout   as in path_sums.cuh; queue index_t [n], start offset_t [n]: the frontiers of all levels one after another,
//          each as in frontier.cuh: vertices without out-edges are in none; tally word64_t [n + 3]: one for each level.
#pragma once

#include "levels.cuh"
#include "path_sums.cuh"

// Nothing is found but the source. By the whole grid.
__device__ __forceinline__ void begin_paths(index_t n, index_t source, int* level, path_sums* paths, int* scale)
{
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads) {
        level[v] = v == source ? 0 : -1;
        paths[v] = path_sums{v == source ? 1.0 : 0.0, 0.0};
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) scale[0] = 0;
}

// Dependencies, by the input's ids (old_id is null where these are the same). By the whole grid. Paths that end at the
// source or begin there do not go through it.
__device__ __forceinline__ void end_paths(index_t n, index_t source, const path_sums* paths,
                                          const index_t* __restrict__ old_id, double* dependency)
{
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads) {
        const path_sums p = paths[v];
        dependency[old_id ? old_id[v] : v] = v == source ? 0.0 : p.count * p.sum;
    }
}

// ---- levels of the whole grid ----------------------------------------------------------------------------

// Forward from level k, whose frontier begins at queue[first]: its edges cut into equal parts, counts added by atomics.
__device__ __forceinline__ void push_paths(int k, long long first, double factor, const offset_t* __restrict__ row_ptr,
                                           const index_t* __restrict__ col, int* level, path_sums* paths, int* scale,
                                           index_t* queue, offset_t* start, word64_t* tally, index_t* slots)
{
    const long long next = first + tally_count(tally[k]);
    warp_gather found{slots, 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, row_ptr, queue + next, start + next, tally + k + 1);
    };
    expand_edges(queue + first, start + first, tally[k], row_ptr, col, warp_of_grid(), warps_of_grid(),
                 [&](bool active, index_t v, index_t w) {
                     const bool won = active && lead_to(w, k, passed_on(v, k, factor, paths, scale), level, paths);
                     found.add(won, w, flush);
                 });
    found.rest(flush);
}

// The same from the other side: every vertex not found yet looks at all of its in-edges. A lane has a vertex; lists of
// 16 and more are walked by the warp. No atomics but for the queue: a count has one writer.
__device__ __forceinline__ void pull_paths(index_t n, int k, long long first, double factor,
                                           const offset_t* __restrict__ row_ptr, const offset_t* __restrict__ col_ptr,
                                           const index_t* __restrict__ row, int* level, path_sums* paths, int* scale,
                                           index_t* queue, offset_t* start, word64_t* tally, index_t* slots)
{
    const int lane = threadIdx.x & 31;
    const long long next = first + tally_count(tally[k]);
    warp_gather found{slots, 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, row_ptr, queue + next, start + next, tally + k + 1);
    };
    for (long long base = warp_of_grid() * 32; base < n; base += warps_of_grid() * 32) {
        const long long v = base + lane;
        offset_t e = 0, end = 0;
        if (v < n && level[v] == -1) {  // its one writer is this thread
            e = col_ptr[v];
            end = col_ptr[v + 1];
        }
        double count = 0;
        bool any = false;
        for (unsigned open = __ballot_sync(SPG_FULL_WARP, end - e >= 16); open; open &= open - 1) {
            const int owner = __ffs((int)open) - 1;
            const offset_t last = __shfl_sync(SPG_FULL_WARP, end, owner);
            double part = 0;
            bool some = false;
            for (offset_t at = __shfl_sync(SPG_FULL_WARP, e, owner) + lane; at < last; at += 32) {
                const index_t u = row[at];
                if (load_grid(level + u) != k) continue;
                part += passed_on(u, k, factor, paths, scale);
                some = true;
            }
            part = warp_sum(part);
            some = __any_sync(SPG_FULL_WARP, some);
            if (lane != owner) continue;
            count = part;
            any = some;
            e = end;
        }
        for (; e < end; e += 4) {  // four are waited for together
            index_t u[4];
            bool before[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) u[i] = e + i < end ? row[e + i] : -1;
#pragma unroll
            for (int i = 0; i < 4; ++i) before[i] = u[i] >= 0 && load_grid(level + u[i]) == k;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (!before[i]) continue;
                count += passed_on(u[i], k, factor, paths, scale);
                any = true;
            }
        }
        __syncwarp();
        if (any) {
            store_grid(level + v, k + 1);  // others look whether it is k
            paths[v].count = count;
        }
        found.add(any, (index_t)v, flush);
    }
    found.rest(flush);
}

// Backward to level k from its own side: its vertices gather the shares of their successors. The edges are cut into
// equal parts, so the vertices that several warps share, or several lanes, are added to by atomics: one for each run of
// lanes with the same vertex, and one for all steps in which a warp has no other.
__device__ __forceinline__ void gather_shares(int k, long long first, double factor,
                                              const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                              const int* level, path_sums* paths, const index_t* queue,
                                              const offset_t* start, const word64_t* tally)
{
    const int lane = threadIdx.x & 31;
    index_t current = -1;  // the same for all lanes
    double held = 0;
    const auto flush = [&] {
        if (current < 0) return;
        const double sum = warp_sum(held);
        if (lane == 0 && sum != 0) atomicAdd(&paths[current].sum, sum * factor);
        held = 0;
        current = -1;
    };
    expand_edges(queue + first, start + first, tally[k], row_ptr, col, warp_of_grid(), warps_of_grid(),
                 [&](bool active, index_t v, index_t w) {
                     double share = active && level[w] == k + 1 ? share_of(w, paths) : 0.0;
                     if (!active) v = -1;
                     const index_t foremost = __shfl_sync(SPG_FULL_WARP, v, 0);
                     if (foremost == __shfl_sync(SPG_FULL_WARP, v, 31)) {  // and so all between
                         if (foremost != current) flush();
                         current = foremost;
                         held += share;
                         return;
                     }
                     flush();
                     for (int distance = 1; distance < 32; distance *= 2) {
                         const double other = __shfl_down_sync(SPG_FULL_WARP, share, distance);
                         const index_t of = __shfl_down_sync(SPG_FULL_WARP, v, distance);
                         if (lane + distance < 32 && of == v) share += other;
                     }
                     const index_t before = __shfl_up_sync(SPG_FULL_WARP, v, 1);
                     if ((lane == 0 || before != v) && share != 0) atomicAdd(&paths[v].sum, share * factor);
                 });
    flush();
}

// Backward to level k from the other side, of undirected graphs: the vertices of level k + 1, whose frontier begins at
// queue[next], scatter their shares to their predecessors by atomics.
__device__ __forceinline__ void scatter_shares(int k, long long next, double factor,
                                               const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                                               const int* level, path_sums* paths, const index_t* queue,
                                               const offset_t* start, const word64_t* tally)
{
    expand_edges(queue + next, start + next, tally[k + 1], row_ptr, col, warp_of_grid(), warps_of_grid(),
                 [&](bool active, index_t w, index_t u) {
                     if (active && level[u] == k) atomicAdd(&paths[u].sum, share_of(w, paths) * factor);
                 });
}
