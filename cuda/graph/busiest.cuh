// busiest.cuh: bottom-up levels that look at each vertex's busiest in-neighbour first.
//
// Layout   busiest int32 [n]: of each vertex the in-neighbour with the most in-edges; ~u where u is the only one, ~v
//                 where vertex v has none (a vertex that is looked for is not visited, so that never answers)
//          bare   uint32 [words + 1]: bits of vertices without any edge and of those beyond n; how many vertices
// Both are found once per graph (find_busiest). On skewed graphs nearly every vertex that a large level finds has its
// busiest neighbour in an earlier one: 99 % in R-MAT graphs. So a level reads four bytes of each vertex side by side,
// and a bit; row ends and a sector of a list only of the few others.
#pragma once

#include "levels.cuh"

#define SPG_WORDS 4         // words of vertices that a warp tests together
#define SPG_LOOKED_AT 1024  // in-edges of a vertex that are looked at for the busiest

// Once per graph: a warp per word, eight lanes per vertex. bare[words] must be 0 before.
__device__ __forceinline__ void find_busiest(index_t n, const offset_t* __restrict__ row_ptr,
                                             const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                             index_t* busiest, unsigned* bare)
{
    const int lane = threadIdx.x & 31;
    unsigned without = 0;
    for (long long word = warp_of_grid(); word < words_of(n); word += warps_of_grid()) {
        const long long mine = word * 32 + lane;
        const bool none = mine < n && col_ptr[mine] == col_ptr[mine + 1] && row_ptr[mine] == row_ptr[mine + 1];
        const unsigned bits = __ballot_sync(SPG_FULL_WARP, none || mine >= n);
        without += __popc(__ballot_sync(SPG_FULL_WARP, none));
        if (lane == 0) bare[word] = bits;
        for (long long v = word * 32 + lane / 8; v < word * 32 + 32; v += 4) {
            const offset_t from = v < n ? col_ptr[v] : 0, to = v < n ? col_ptr[v + 1] : 0;
            word64_t best = 0;  // in-edges, then what makes the least number the largest of equals
            for (offset_t e = from + lane % 8; e < min(to, from + SPG_LOOKED_AT); e += 8) {
                const index_t u = row[e];
                const offset_t degree = min(col_ptr[u + 1] - col_ptr[u], (offset_t)0x7fffffff);
                best = max(best, (word64_t)degree << 32 | ~(unsigned)u);
            }
            for (int distance = 4; distance > 0; distance /= 2)
                best = max(best, __shfl_xor_sync(SPG_FULL_WARP, best, distance));
            if (lane % 8 != 0 || v >= n) continue;
            const index_t u = to == from ? (index_t)v : (index_t) ~(unsigned)best;
            busiest[v] = to - from < 2 ? ~u : u;
        }
    }
    if (lane == 0 && without != 0) atomicAdd(bare + words_of(n), without);
}

// As begin_levels, which reads the row ends of all vertices; here nothing is read but `bare`.
__device__ __forceinline__ void begin_levels_bare(index_t n, index_t source, const offset_t* __restrict__ row_ptr,
                                                  const unsigned* __restrict__ bare, int* level, unsigned* visited,
                                                  index_t* queue, offset_t* start, word64_t* tally)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long word = thread; word < words_of(n); word += threads)
        visited[word] = bare[word] | (word == source / 32 ? 1u << source % 32 : 0);
    const auto at = [&](long long v) { return v == source ? 0 : -1; };
    // 16 bytes at a time, from where they are aligned: of several searches in turn, one's levels begin anywhere.
    const long long head = min((long long)n, (long long)(-reinterpret_cast<size_t>(level) / sizeof(int) % 4));
    const long long whole = (n - head) / 4, tail = head + 4 * whole;
    for (long long i = thread; i < whole; i += threads) {
        const long long v = head + 4 * i;
        *reinterpret_cast<int4*>(level + v) = make_int4(at(v), at(v + 1), at(v + 2), at(v + 3));
    }
    if (thread < head) level[thread] = at(thread);
    if (thread < n - tail) level[tail + thread] = at(tail + thread);
    if (thread == 0) begin_frontier(source, row_ptr, queue, start, tally);
}

// Searches the in-edges of slots[0 .. count), none of them visited, for a visited vertex. A lane looks at the first
// `probes` of its vertex, four together; what is left of long lists the warp searches together. Returns whether this
// lane's vertex, slots[lane], has one. All lanes come together.
__device__ __forceinline__ bool any_visited(const index_t* slots, int count, int probes,
                                            const offset_t* __restrict__ col_ptr, const index_t* __restrict__ row,
                                            const unsigned* before)
{
    const int lane = threadIdx.x & 31;
    offset_t e = 0, end = 0;
    if (lane < count) {
        e = col_ptr[slots[lane]];
        end = col_ptr[slots[lane] + 1];
    }
    bool hit = false;
    for (int left = probes; left > 0 && e < end && !hit; left -= 4) {
        const offset_t last = min(end, e + min(left, 4));
        index_t u[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) u[i] = row[min(e + i, last - 1)];
#pragma unroll
        for (int i = 0; i < 4; ++i) hit |= before[u[i] / 32] >> u[i] % 32 & 1;
        e = last;
    }
    for (unsigned open = __ballot_sync(SPG_FULL_WARP, !hit && e < end); open; open &= open - 1) {
        const int owner = __ffs((int)open) - 1;
        const offset_t last = __shfl_sync(SPG_FULL_WARP, end, owner);
        bool any = false;
        for (offset_t from = __shfl_sync(SPG_FULL_WARP, e, owner); !any && from < last;
             from += min((offset_t)64, last - from)) {
            const index_t u = row[min(from + lane, last - 1)], v = row[min(from + lane + 32, last - 1)];
            any = __any_sync(SPG_FULL_WARP, (before[u / 32] >> u % 32 | before[v / 32] >> v % 32) & 1);
        }
        if (lane == owner) hit = any;
    }
    return hit;
}

// Bottom-up: a warp takes up to 32 words of `before`. Where many bits are unset, four words at a time are tested by
// their vertices' busiest neighbours. Vertices without an answer, and all of the few where few bits are unset, are
// gathered, 32 at a time, and their lists searched. A word of `after` is written by one warp, which adds the bits that
// it finds in lists.
//
// What is found is counted in pulled[(k + 1) % 3]; its out-edges only where the graph is `directed`: else each vertex
// has some, and how many is counted when a queue of them is made (queue_found).
__device__ __forceinline__ void pull_busiest(index_t n, int k, int probes, bool directed,
                                             const offset_t* __restrict__ row_ptr, const offset_t* __restrict__ col_ptr,
                                             const index_t* __restrict__ row, const index_t* __restrict__ busiest,
                                             int* level, const unsigned* before, unsigned* after, word64_t* pulled)
{
    SPG_SHARED_VAR(word64_t, block_tally);
    if (threadIdx.x == 0) block_tally = 0;
    __syncthreads();
    const int lane = threadIdx.x & 31;
    const long long words = words_of(n);
    const int step = (int)min(32ll, (words + warps_of_grid() - 1) / warps_of_grid());
    word64_t mine = 0;
    const auto reach = [&](bool hit, index_t v) {
        if (!hit) return;
        level[v] = k + 1;
        if (!directed) {
            mine += tally_of(1, 0);
        } else {
            const offset_t degree = row_ptr[v + 1] - row_ptr[v];
            if (degree > 0) mine += tally_of(1, degree);
        }
    };
    warp_gather rest{gather_slots(), 0};
    const auto search = [&](int count) {
        const bool hit = any_visited(rest.slots, count, probes, col_ptr, row, before);
        const index_t v = hit ? rest.slots[lane] : 0;
        if (hit) atomicOr(after + v / 32, 1u << v % 32);
        reach(hit, v);
    };
    for (long long base = warp_of_grid() * step; base < words; base += warps_of_grid() * step) {
        const bool own = lane < step && base + lane < words;
        const unsigned seen = own ? before[base + lane] : 0xffffffffu;
        unsigned open = ~seen, found = 0;  // of this lane's word: bits to look for, bits found
        if (4 * __popc(__ballot_sync(SPG_FULL_WARP, __popc(open) > 1)) >= step) {
            for (int first = 0; first < step; first += SPG_WORDS) {
                index_t u[SPG_WORDS];
                bool hit[SPG_WORDS];
                unsigned bits[SPG_WORDS];
#pragma unroll
                for (int i = 0; i < SPG_WORDS; ++i) {
                    hit[i] = __shfl_sync(SPG_FULL_WARP, open, first + i) >> lane & 1;
                    u[i] = hit[i] ? busiest[(base + first + i) * 32 + lane] : -1;
                }
#pragma unroll
                for (int i = 0; i < SPG_WORDS; ++i) bits[i] = hit[i] ? before[(u[i] < 0 ? ~u[i] : u[i]) / 32] : 0;
#pragma unroll
                for (int i = 0; i < SPG_WORDS; ++i) {
                    const unsigned only = __ballot_sync(SPG_FULL_WARP, u[i] < 0);
                    hit[i] = bits[i] >> (u[i] < 0 ? ~u[i] : u[i]) % 32 & 1;
                    const unsigned there = __ballot_sync(SPG_FULL_WARP, hit[i]);
                    if (lane == first + i) {
                        found = there;
                        open &= ~(there | only);
                    }
                    reach(hit[i], (index_t)((base + first + i) * 32 + lane));
                }
            }
        }
        if (own) after[base + lane] = seen | found;
        __syncwarp();
        for (unsigned some = __ballot_sync(SPG_FULL_WARP, open != 0); some; some &= some - 1) {
            const int owner = __ffs((int)some) - 1;
            const unsigned bits = __shfl_sync(SPG_FULL_WARP, open, owner);
            rest.add(bits >> lane & 1, (index_t)((base + owner) * 32 + lane), search);
        }
    }
    rest.rest(search);
    if (__any_sync(SPG_FULL_WARP, mine != 0)) {
        mine = lane_0_sum(mine);
        if (lane == 0) atomicAdd(&block_tally, mine);
    }
    __syncthreads();
    if (threadIdx.x == 0 && block_tally) atomicAdd(pulled + (k + 1) % 3, block_tally);
}
