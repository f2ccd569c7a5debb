// sources.cuh: the parts of a breadth-first search from up to 64 sources together, a bit of a word for each.
//
// Layout   seen   word64_t [2][n]: bit s of a vertex says that source s reaches it; `now` is the copy that holds, and
//                 `before` what held one level before.
//          fresh  word64_t [n]: of vertices in the queue, the bits that the last level brought.
//          planes word64_t [plane_count][n]: bit s of plane j is bit j of the level of source s, so that a level is
//                 written with as many bits as it has. A plane is set to 0 when a level first needs it.
//          queue  index_t [2][n], start offset_t [2][n]: see frontier.cuh. counters word64_t [2][10]: level_counters.
//
// Bottom-up needs no frontier, for the reason that levels.cuh gives: a bit that an in-neighbour has and a vertex does
// not have was brought by the last level.
#pragma once

#include "levels.cuh"
#include "stamps.cuh"

#ifndef SPG_STRIP
#error "SPG_STRIP is not defined: in-edges of a strip, and the most of a row that is not in strips"
#endif
#ifndef SPG_ROUNDS
#error "SPG_ROUNDS is not defined: times four in-edges that a lane looks at alone"
#endif
#ifndef SPG_TEAM_ROW
#error "SPG_TEAM_ROW is not defined: in-edges that eight lanes look through; of more a whole warp does"
#endif
#ifndef SPG_FLIGHT
#error "SPG_FLIGHT is not defined: loads that a lane has in flight, 1, 2 or 4"
#endif

#define SPG_LEVEL_COUNTERS 10
// Three words of each kind, in turn: level k reads word k % 3, adds to the next, and clears the one after that.
struct level_counters {
    word64_t* words;
    // Vertices and edges of the frontier, see frontier.cuh.
    __device__ __forceinline__ word64_t* tally(int k) const { return words + k % 3; }
    // Sources that have a frontier: no other bit can be found any more.
    __device__ __forceinline__ word64_t* alive(int k) const { return words + 3 + k % 3; }
    // In-edges of vertices that some of these have not found, as far as it was looked: known after bottom-up levels.
    __device__ __forceinline__ word64_t* open(int k) const { return words + 6 + k % 3; }
    // Of a queue that is made again.
    __device__ __forceinline__ word64_t* again() const { return words + 9; }
    __device__ __forceinline__ void clear(int k) const { *tally(k) = *alive(k) = *open(k) = 0; }
};

struct source_words {
    index_t n;
    word64_t *now, *before, *fresh, *planes;
    int plane_count;
    const offset_t* row_ptr;
    const index_t* col;
    const offset_t* col_ptr;
    const index_t* row;
    index_t* queue;
    offset_t* start;
    index_t* strip_row;
    offset_t* strip_begin;
    unsigned* strips;
    level_counters at;
    __device__ __forceinline__ index_t* queue_of(int k) const { return queue + (long long)(k & 1) * n; }
    __device__ __forceinline__ offset_t* start_of(int k) const { return start + (long long)(k & 1) * n; }
    __device__ __forceinline__ word64_t* plane(int j) const { return planes + (long long)j * n; }
    __device__ __forceinline__ offset_t degree(index_t v) const { return row_ptr[v + 1] - row_ptr[v]; }
};

// The bits of `value` over a warp, of which all lanes come; all get it.
__device__ __forceinline__ word64_t warp_union(word64_t value)
{
    for (int distance = 16; distance > 0; distance /= 2) value |= __shfl_xor_sync(SPG_FULL_WARP, value, distance);
    return value;
}

// Level `depth` of `bits` of vertex v, which only the caller writes.
__device__ __forceinline__ void mark_level(const source_words& g, int depth, long long v, word64_t bits)
{
    for (int j = 0; depth >> j; ++j)
        if (depth >> j & 1) g.plane(j)[v] |= bits;
}
// The same where several threads may do so for v.
__device__ __forceinline__ void mark_level_together(const source_words& g, int depth, long long v, word64_t bits)
{
    for (int j = 0; depth >> j; ++j)
        if (depth >> j & 1) atomicOr(g.plane(j) + v, bits);
}

// The plane that level `depth` is the first to need; its other planes are not touched.
__device__ __forceinline__ void clear_plane(const source_words& g, int depth)
{
    word64_t* plane = g.plane(31 - __clz(depth));
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < g.n; v += stride) plane[v] = 0;
}

// Bits of the sources, long rows cut into strips, the frontier of level 0. `source` int32 [count]: the same vertex
// perhaps several times, -1 for none.
__device__ __forceinline__ void begin_sources(const source_words& g, int count, const index_t* source)
{
    SPG_SHARED(index_t, from, 64);
    const int lane = threadIdx.x & 31;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int k = 0; k < 3; ++k) g.at.clear(k);
    }
    if (threadIdx.x < 64) from[threadIdx.x] = (int)threadIdx.x < count ? source[threadIdx.x] : -1;
    __syncthreads();
    for (long long base = warp_of_grid() * 32; base < g.n; base += warps_of_grid() * 32) {
        const long long v = base + lane;
        word64_t mine = 0;
        for (int half = 0; half < 64; half += 32) {
            const index_t here = from[half + lane];  // -1 where there are fewer sources
            for (unsigned some = __ballot_sync(SPG_FULL_WARP, here >= base && here < base + 32); some;
                 some &= some - 1) {
                const int which = half + __ffs((int)some) - 1;
                if (from[which] == v) mine |= (word64_t)1 << which;
            }
        }
        if (v >= g.n) continue;
        g.now[v] = g.before[v] = mine;
        g.plane(0)[v] = 0;
        const offset_t begin = g.col_ptr[v], length = g.col_ptr[v + 1] - begin;
        if (length > SPG_STRIP) {
            const unsigned pieces = (unsigned)((length + SPG_STRIP - 1) / SPG_STRIP);
            const unsigned place = atomicAdd(g.strips, pieces);
            for (unsigned i = 0; i < pieces; ++i) {
                g.strip_row[place + i] = (index_t)v;
                g.strip_begin[place + i] = begin + (offset_t)i * SPG_STRIP;
            }
            for (int j = 1; j < g.plane_count; ++j) g.plane(j)[v] = 0;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < 64) {
        const int s = (int)threadIdx.x;
        const index_t v = from[s];
        word64_t bits = 0;
        bool again = v < 0;
        for (int t = 0; t < count; ++t)
            if (from[t] == v) {
                bits |= (word64_t)1 << t;
                again = again || t < s;
            }
        const offset_t degree = again ? 0 : g.degree(v);
        if (!again) {
            g.fresh[v] = bits;
            atomicOr(g.at.alive(0), bits);
        }
        long long position = 0;
        offset_t before = 0;
        reserve(degree, g.at.tally(0), position, before);
        if (degree > 0) {
            g.queue[position] = v;
            g.start[position] = before;
        }
    }
}

// After a top-down level: what it brought to each vertex of the queue of level k. `warp` of `warps`.
__device__ __forceinline__ void settle(const source_words& g, int k, long long warp, long long warps)
{
    const long long count = tally_count(*g.at.tally(k));
    const index_t* queue = g.queue_of(k);
    word64_t alive = 0;
    for (long long i = warp * 32 + (threadIdx.x & 31); i < count; i += warps * 32) {
        const index_t v = queue[i];
        const word64_t held = g.now[v], bits = held & ~g.before[v];
        g.fresh[v] = bits;
        g.before[v] = held;
        mark_level(g, k, v, bits);
        alive |= bits;
    }
    alive = warp_union(alive);
    if ((threadIdx.x & 31) == 0 && alive) atomicOr(g.at.alive(k), alive);
}

// Top-down from the queue of level k. An atomic is done where it may bring something.
__device__ __forceinline__ void push_sources(const source_words& g, int k, word64_t tally, long long warp,
                                             long long warps)
{
    const bool sinks = g.row_ptr != g.col_ptr;  // a directed graph may have some; they are in no queue
    warp_gather found{gather_slots(), 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, g.row_ptr, g.queue_of(k + 1), g.start_of(k + 1), g.at.tally(k + 1));
    };
    edge_walk walk(g.queue_of(k), g.start_of(k), tally, g.row_ptr, warp, warps);
    while (walk.more()) {
        bool active[SPG_FLIGHT];
        index_t from[SPG_FLIGHT], to[SPG_FLIGHT];
        offset_t edge[SPG_FLIGHT];
        word64_t bits[SPG_FLIGHT];
        for (int i = 0; i < SPG_FLIGHT; ++i) walk.step(active[i], from[i], edge[i]);
        for (int i = 0; i < SPG_FLIGHT; ++i) to[i] = active[i] ? g.col[edge[i]] : 0;
        for (int i = 0; i < SPG_FLIGHT; ++i) bits[i] = active[i] ? g.fresh[from[i]] & ~load_grid(g.now + to[i]) : 0;
        for (int i = 0; i < SPG_FLIGHT; ++i) {
            bool first = false;
            if (bits[i]) {
                const word64_t was = atomicOr(g.now + to[i], bits[i]), won = bits[i] & ~was;
                if (won) {
                    first = was == g.before[to[i]];
                    if (sinks && g.degree(to[i]) == 0) mark_level_together(g, k + 1, to[i], won);
                }
            }
            found.add(first, to[i], flush);
        }
    }
    found.rest(flush);
}

// The queue of level k, after level k - 1 was bottom-up.
__device__ __forceinline__ void requeue(const source_words& g, int k)
{
    warp_gather found{gather_slots(), 0};
    const auto flush = [&](int count) {
        enqueue_gathered(found.slots, count, g.row_ptr, g.queue_of(k), g.start_of(k), g.at.again());
    };
    for (long long base = warp_of_grid() * 32; base < g.n; base += warps_of_grid() * 32) {
        const long long v = base + (threadIdx.x & 31);
        word64_t bits = 0;
        if (v < g.n) {
            const word64_t held = g.now[v];
            bits = held & ~g.before[v];
            if (bits) {
                g.fresh[v] = bits;
                g.before[v] = held;
            }
        }
        found.add(bits != 0, (index_t)v, flush);
    }
    found.rest(flush);
}

// What the rows of the lanes in `rows` find: LANES lanes take a row, as many rows at a time as a warp has room for.
// Each lane brings its own row, edges [e, end), and what it looks for; a row ends when that is found.
template <int LANES>
__device__ __forceinline__ void look_through(const word64_t* __restrict__ now, const index_t* __restrict__ row,
                                             unsigned rows, offset_t e, offset_t end, word64_t wanted, word64_t& found)
{
    const int lane = threadIdx.x & 31, team = lane / LANES;
    while (rows) {
        unsigned left = rows;
        for (int i = 0; i < team; ++i) left &= left - 1;
        const int owner = left ? __ffs((int)left) - 1 : 0;
        offset_t at = __shfl_sync(SPG_FULL_WARP, e, owner) + lane % LANES;
        const offset_t last = __shfl_sync(SPG_FULL_WARP, end, owner);
        const word64_t want = __shfl_sync(SPG_FULL_WARP, wanted & ~found, owner);
        word64_t got = 0;
        bool more = left != 0;
        while (__any_sync(SPG_FULL_WARP, more)) {
            index_t from[SPG_FLIGHT];
            for (int i = 0; i < SPG_FLIGHT; ++i) from[i] = more && at + i * LANES < last ? row[at + i * LANES] : -1;
            for (int i = 0; i < SPG_FLIGHT; ++i)
                if (from[i] >= 0) got |= now[from[i]];
            for (int distance = LANES / 2; distance > 0; distance /= 2)
                got |= __shfl_xor_sync(SPG_FULL_WARP, got, distance);
            at += SPG_FLIGHT * LANES;
            more = more && at - lane % LANES < last && (want & ~got) != 0;
        }
        // To the lane whose row it is: its place among the rows of this round is the team that took it.
        const int place = __popc(rows & ((1u << lane) - 1));
        const word64_t mine = __shfl_sync(SPG_FULL_WARP, got, place * LANES & 31);
        if (rows >> lane & 1 && place < 32 / LANES) found |= mine;
        for (int i = 0; i < 32 / LANES; ++i) rows &= rows - 1;
    }
}

// Bottom-up: every vertex without all bits of `alive` reads the words of its in-neighbours until it has them.
// What comes of it is in `before`, which the caller then swaps with `now`.
__device__ __forceinline__ void pull_sources(const source_words& g, int k, word64_t alive)
{
    SPG_SHARED(word64_t, block_sums, 3);
    if (threadIdx.x < 3) block_sums[threadIdx.x] = 0;
    __syncthreads();
    const int lane = threadIdx.x & 31, depth = k + 1;
    const bool opens_plane = (depth & (depth - 1)) == 0;
    word64_t* plane = g.plane(31 - __clz(depth));
    const word64_t* now = g.now;
    word64_t tally = 0, found_by = 0, open = 0;
    const unsigned strips = *g.strips;
    for (long long i = warp_of_grid(); i < strips; i += warps_of_grid()) {
        const index_t v = g.strip_row[i];
        const offset_t e = g.strip_begin[i], end = min(g.col_ptr[v + 1], e + (offset_t)SPG_STRIP);
        const bool first_strip = e == g.col_ptr[v];
        const word64_t held = now[v];
        // Another strip of the row may find some meanwhile; the lanes go by what one of them sees.
        const word64_t wanted = __shfl_sync(SPG_FULL_WARP, alive & ~(held | load_grid(g.before + v)), 0);
        word64_t found = 0;
        if (wanted) look_through<32>(now, g.row, 1u, e, end, wanted, found);
        if (lane == 0) {
            found &= alive & ~held;
            if (found || first_strip) {  // `before` is of a level before, whose bits `now` has, too
                const word64_t was = atomicOr(g.before + v, held | found), won = found & ~was;
                if (won) {
                    mark_level_together(g, depth, v, won);
                    const offset_t degree = g.degree(v);
                    if ((was & ~held) == 0 && degree > 0) tally += tally_of(1, degree);
                    found_by |= won;
                }
            }
            if (alive & ~(held | found)) open += end - e;
        }
    }
    for (long long base = warp_of_grid() * 32; base < g.n; base += warps_of_grid() * 32) {
        const long long v = base + lane;
        offset_t e = 0, end = 0;
        word64_t held = ~(word64_t)0, wanted = 0, found = 0;
        bool mine = false;  // neither beyond the last vertex nor in strips
        if (v < g.n) {
            held = now[v];
            e = g.col_ptr[v];
            end = g.col_ptr[v + 1];
            mine = end - e <= SPG_STRIP;
            wanted = mine ? alive & ~held : 0;
        }
        const offset_t length = end - e;
        // A lane alone at first: most rows are short, or end early.
        for (int round = 0; round < SPG_ROUNDS; ++round) {
            const bool looks = (wanted & ~found) != 0 && e < end;
            if (!__any_sync(SPG_FULL_WARP, looks)) break;
            index_t from[4];
            for (int i = 0; i < 4; ++i) from[i] = looks && e + i < end ? g.row[e + i] : -1;
            for (int i = 0; i < 4; ++i)
                if (from[i] >= 0) found |= now[from[i]];
            if (looks) e = min(end, e + 4);
        }
        const bool looks = (wanted & ~found) != 0 && e < end;
        const unsigned shorter = __ballot_sync(SPG_FULL_WARP, looks && end - e <= SPG_TEAM_ROW);
        const unsigned longer = __ballot_sync(SPG_FULL_WARP, looks && end - e > SPG_TEAM_ROW);
        look_through<8>(now, g.row, shorter, e, end, wanted, found);
        look_through<32>(now, g.row, longer, e, end, wanted, found);
        found &= wanted;
        if (mine) {
            g.before[v] = held | found;
            if (opens_plane)
                plane[v] = found;
            else if (found)
                mark_level(g, depth, v, found);
            if (found) {
                const offset_t degree = g.degree((index_t)v);
                if (degree > 0) tally += tally_of(1, degree);
                found_by |= found;
            }
            if (wanted & ~found) open += length;
        }
    }
    tally = lane_0_sum(tally);
    open = lane_0_sum(open);
    found_by = warp_union(found_by);
    if (lane == 0) {
        if (tally) atomicAdd(block_sums, tally);
        if (found_by) atomicOr(block_sums + 1, found_by);
        if (open) atomicAdd(block_sums + 2, open);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (block_sums[0]) atomicAdd(g.at.tally(depth), block_sums[0]);
        if (block_sums[1]) atomicOr(g.at.alive(depth), block_sums[1]);
        if (block_sums[2]) atomicAdd(g.at.open(depth), block_sums[2]);
    }
}

// All levels, by the whole grid. Returns how many were looked for; the last may have found nothing. `words.now` is then
// what is reached. stamps: stamps.cuh; a code 4 x vertices of the frontier and 0 top-down, 1 bottom-up, 2 one block.
//
// Every block decides by the same numbers: edges of the frontier, and `open`, in-edges of vertices that a search may
// still find. Top-down a level costs two barriers, bottom-up one; few vertices are left to one block.
__device__ __forceinline__ int search_sources(source_words& words, int count, const index_t* source, int* handover,
                                              unsigned* barrier, int small_vertices, long long small_edges,
                                              double alpha, double turn, long long* stamps, int watched)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    word64_t* const counters = words.at.words;
    begin_sources(words, count, source);
    grid_barrier(barrier);
    long long open = words.col_ptr[words.n];
    bool pulled = false;
    int k = 0;
    for (;;) {
        const word64_t now = *words.at.tally(k);
        if (now == 0) break;
        const double push = alpha * (double)tally_edges(now) + (pulled ? turn * words.n : 0.0),
                     pull = open + turn * words.n;
        const bool bottom_up = push > pull;
        const bool opens_plane = ((k + 1) & k) == 0;  // level k + 1 is the first with another bit
        if (!pulled && !bottom_up && !opens_plane && tally_count(now) <= small_vertices &&
            tally_edges(now) <= small_edges) {
            // Its own counters: the other blocks may still read those of this level.
            words.at.words = words.at.words == counters ? counters + SPG_LEVEL_COUNTERS : counters;
            if (blockIdx.x == 0) {
                if (first) {
                    for (int i = 0; i < 3; ++i) words.at.clear(i);
                    *words.at.tally(k) = now;
                }
                __syncthreads();
                word64_t next = now;
                do {
                    if (first) stamp(stamps, watched, k, 4 * tally_count(next) + 2);
                    settle(words, k, threadIdx.x / 32, blockDim.x / 32);
                    __syncthreads();
                    if (first) words.at.clear(k + 2);
                    push_sources(words, k, next, threadIdx.x / 32, blockDim.x / 32);
                    __syncthreads();
                    next = load_block(words.at.tally(++k));
                } while (next != 0 && ((k + 1) & k) != 0 && tally_count(next) <= small_vertices &&
                         tally_edges(next) <= small_edges);
                if (first) *handover = k;
            }
            grid_barrier(barrier);
            k = *handover;
            continue;
        }
        if (first) stamp(stamps, watched, k, 4 * tally_count(now) + bottom_up);
        if (!pulled && k > 0) {
            settle(words, k, warp_of_grid(), warps_of_grid());
            if (opens_plane && !bottom_up) clear_plane(words, k + 1);
            grid_barrier(barrier);
        } else if (pulled && !bottom_up) {
            requeue(words, k);
            if (opens_plane) clear_plane(words, k + 1);
            grid_barrier(barrier);
        }
        if (first) words.at.clear(k + 2);
        if (bottom_up) {
            if (first) *words.at.again() = 0;
            pull_sources(words, k, *words.at.alive(k));
            grid_barrier(barrier);
            open = (long long)*words.at.open(k + 1);
            word64_t* swap = words.now;
            words.now = words.before;
            words.before = swap;
        } else {
            push_sources(words, k, now, warp_of_grid(), warps_of_grid());
            grid_barrier(barrier);
        }
        pulled = bottom_up;
        ++k;
    }
    return k;
}

// Levels int32 [count][n] from the planes that levels up to `deepest` have used. A thread takes WIDE vertices, whose
// levels it stores together: 1, or 4 where n is a multiple of 4.
template <int WIDE>
__device__ __forceinline__ void write_levels(const source_words& g, int count, int deepest,
                                             const index_t* __restrict__ new_id, int* __restrict__ level)
{
    const int used = deepest ? 32 - __clz(deepest) : 0;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < g.n / WIDE; i += stride) {
        long long u[WIDE];
        for (int c = 0; c < WIDE; ++c) u[c] = new_id ? new_id[WIDE * i + c] : WIDE * i + c;
        for (int s = 0; s < count; s += 8) {
            int depth[8][WIDE];
            unsigned held[WIDE];
            for (int c = 0; c < WIDE; ++c) {
                held[c] = (unsigned)(g.now[u[c]] >> s);
                for (int b = 0; b < 8; ++b) depth[b][c] = 0;
            }
            for (int j = 0; j < used; ++j)
                for (int c = 0; c < WIDE; ++c) {
                    const unsigned digits = (unsigned)(g.plane(j)[u[c]] >> s);
                    for (int b = 0; b < 8; ++b) depth[b][c] |= (int)(digits >> b & 1) << j;
                }
            for (int b = 0; b < 8; ++b) {
                if (s + b >= count) continue;
                for (int c = 0; c < WIDE; ++c)
                    if (!(held[c] >> b & 1)) depth[b][c] = -1;
                int* out = level + (s + b) * (long long)g.n + WIDE * i;
                if (WIDE == 4)
                    *(int4*)out = make_int4(depth[b][0], depth[b][1 % WIDE], depth[b][2 % WIDE], depth[b][3 % WIDE]);
                else
                    *out = depth[b][0];
            }
        }
    }
}
