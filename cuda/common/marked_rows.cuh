// marked_rows.cuh: sums of rows whose entries lie one after the other, a mark on the last one of each.
//
// Layout   entries in tiles of 128, of which a lane has four; the top bit of an entry's number is the mark. Work is cut
//          into chunks of tiles, so a row may be in several chunks: MarkedRows in variants/marked_rows.py cuts them.
// Mapping  a warp for a chunk. In a tile in which no row ends, adding up is all. Otherwise a segmented scan over the
//          lanes gives the sums of the rows that end; they wait in shared memory and are written by 32, a lane each.
// Idea     segmented sums with marked ends: Blelloch, Heroux and Zagha, "Segmented operations for sparse matrix
//          computation on vector multiprocessors", 1993.
#pragma once
#include "warp.cuh"

#define TILE 128
#define LAST 0x80000000u
#define SUMS 160  // of a warp: that of the row that came in, up to 31 that wait, and 128 of one tile

// What a warp knows of its chunk. Rows are counted as those with entries.
struct marked_rows {
    value_t* sums;  // [SUMS] in shared memory: of the row that came in, then of rows waiting to row - 1
    index_t row;  // the row that the next entry is of
    index_t waiting;  // the first row whose sum has not been written; the one that came in is not among these
    value_t open;  // this lane's part of the row that has not ended yet

    __device__ __forceinline__ void begin(index_t first_row, bool comes_in)
    {
        row = first_row;
        waiting = row + comes_in;
        open = 0;
    }

    // Whether this is still the row that came in from the chunk before.
    __device__ __forceinline__ bool inside() const { return row < waiting; }

    // At the end of the chunk: what the row that came in has in it.
    __device__ __forceinline__ value_t piece() const
    {
        const value_t sum = inside() ? warp_sum(open) : sums[0];
        __syncwarp();  // before the next chunk writes sums[0]
        return sum;
    }

    // At the end of the chunk: the sums that still wait. put(row, sum) is called by a lane for each.
    template <class Put> __device__ __forceinline__ void finish(const Put& put)
    {
        const int lane = threadIdx.x % 32;
        if (lane < row - waiting) put(waiting + lane, sums[1 + lane]);
        __syncwarp();
    }

    // A tile: the lane's entries, for their marks, and what each adds.
    template <class Put>
    __device__ __forceinline__ void add(const unsigned (&e)[4], const value_t (&v)[4], const Put& put)
    {
        const int lane = threadIdx.x % 32;
        const unsigned below = (1u << lane) - 1;
        const unsigned some = __ballot_sync(SPG_FULL_WARP, ((e[0] | e[1] | e[2] | e[3]) & LAST) != 0);
        if (some == 0) {
            open += (v[0] + v[1]) + (v[2] + v[3]);
            return;
        }
        // Which row ends where: as many as ended in the lanes below come before.
        unsigned before = 0, all = 0;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            const unsigned ends = __ballot_sync(SPG_FULL_WARP, (e[u] & LAST) != 0);
            before += __popc(ends & below);
            all += __popc(ends);
        }
        // The lane's own entries: up to the first end, between ends, after the last one.
        value_t head = 0, tail = 0;
        const bool mine = some >> lane & 1;
        bool ended = false;
        value_t* at = sums + 1 + (row - waiting) + before;
        value_t* const first = at;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            tail += v[u];
            if (e[u] & LAST) {
                if (ended)
                    *at = tail;
                else
                    head = tail;
                ended = true;
                tail = 0;
                ++at;
            }
        }
        // What comes in from the lanes below since the last end there, and from the tiles before.
        const int from = (some & (below | 1u << lane)) ? 31 - __clz((int)(some & (below | 1u << lane))) : 0;
        value_t sum = tail;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const value_t other = __shfl_up_sync(SPG_FULL_WARP, sum, distance);
            if (lane - distance >= from) sum += other;
        }
        value_t carry = __shfl_up_sync(SPG_FULL_WARP, sum, 1);
        if (lane == 0) carry = 0;
        const value_t earlier = warp_sum(open);
        if ((some & below) == 0) carry += earlier;
        if (mine) *first = head + carry;
        open = lane >= 31 - __clz((int)some) ? tail : 0;
        __syncwarp();
        row += all;
        const index_t waits = row - waiting, whole = waits / 32 * 32;
        if (whole > 0) {
            for (index_t k = lane; k < whole; k += 32) put(waiting + k, sums[1 + k]);
            value_t rest = 0;
            if (whole + lane < waits) rest = sums[1 + whole + lane];
            __syncwarp();
            if (whole + lane < waits) sums[1 + lane] = rest;
            waiting += whole;
        }
        __syncwarp();  // before the next sums are written
    }
};
