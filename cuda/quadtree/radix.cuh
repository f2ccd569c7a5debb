// radix.cuh: sorts points by Morton code, 8 bits at a time from the lowest (least significant digit first).
//
// The idea is that of Adinets and Merrill, "Onesweep: a faster least significant digit radix sort for GPUs" (2022): one
// reading of the input counts the digits of all passes; then each pass reads and writes every element once, because a
// tile learns where its elements of each digit go by decoupled look-back (see scan.cuh) while it has them in registers.
// So 10 M points move 8 + 4 x 16 bytes each.
//
// Layout   pair_t (code, point) [n], two buffers in turn; the first pass reads points and the last writes order and
//          codes apart.
//          counters  unsigned [1028], zero before: [4][256] how many codes have each digit of each pass; then how many
//                    tiles were taken in each pass.
//          status    unsigned [passes][tiles][256]: flag << 30 | sum, so up to 2^30 points; zero before.
// Threads  256 per block, 16 elements each: a tile of 4,096. A warp holds 512 consecutive ones, in steps of 32, so the
//          order of equal digits is kept, which makes the sort right over several passes.
#pragma once

#include "../common/scan.cuh"
#include "tree.cuh"

#define SPG_SORT_THREADS 256
#define SPG_SORT_WARPS (SPG_SORT_THREADS / 32)
#define SPG_SORT_ITEMS 16
#define SPG_SORT_TILE (SPG_SORT_THREADS * SPG_SORT_ITEMS)
#define SPG_DIGITS 256
#define SPG_COUNT_ITEMS 8
#define SPG_LOOK_AT_ONCE 8
#define SPG_DIGIT_SUM (1u << 30)
#define SPG_DIGIT_PREFIX (2u << 30)
#define SPG_DIGIT_VALUE (SPG_DIGIT_SUM - 1)

// Digits of `passes` passes, the first at bit `shift`. Counted in shared memory in eight copies, of which neighbouring
// lanes take different ones: points close together share their high digits, and 32 atomics on one word take turns. The
// copies are four words apart from a multiple of 32, so that one digit of different copies is in different banks.
__device__ __forceinline__ void count_digits(int n, int shift, int passes, const float2* __restrict__ point,
                                             unsigned* counters)
{
    SPG_SHARED_2D(unsigned, counted, 8, 4 * SPG_DIGITS + 4);
    for (int copy = 0; copy < 8; ++copy)
        for (int i = threadIdx.x; i < 4 * SPG_DIGITS; i += blockDim.x) counted[copy][i] = 0;
    __syncthreads();
    unsigned* mine = counted[threadIdx.x & 7];
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += SPG_COUNT_ITEMS * step) {
        float2 p[SPG_COUNT_ITEMS];  // all read before the first is counted, so that the reads wait together
#pragma unroll
        for (int k = 0; k < SPG_COUNT_ITEMS; ++k) p[k] = point[min(i + k * step, n - 1ll)];
#pragma unroll
        for (int k = 0; k < SPG_COUNT_ITEMS; ++k) {
            if (i + k * step >= n) break;
            const unsigned code = code_of(p[k]) >> shift;
            for (int pass = 0; pass < passes; ++pass)
                atomicAdd(mine + pass * SPG_DIGITS + (code >> 8 * pass & 255), 1u);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < passes * SPG_DIGITS; i += blockDim.x) {
        unsigned sum = 0;
        for (int copy = 0; copy < 8; ++copy) sum += counted[copy][i];
        if (sum) atomicAdd(counters + i, sum);
    }
}

#define SPG_TICKETS (4 * SPG_DIGITS)

// The lanes whose digit is that of this one. By eight votes on its bits, which take less time than __match_any_sync
// (docs/tuning/quadtree.md).
__device__ __forceinline__ unsigned lanes_with(unsigned digit)
{
#ifdef SPG_HOST
    return __match_any_sync(SPG_FULL_WARP, digit);
#else
    unsigned peers = 0xffffffffu;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
        const unsigned set = __ballot_sync(SPG_FULL_WARP, digit >> bit & 1);
        peers &= digit >> bit & 1 ? set : ~set;
    }
    return peers;
#endif
}

struct sort_state_t {
    unsigned *counters, *status;
};

// Pass `pass`, whose digits begin at bit `shift`. load(i) gives element i, store(i, element) puts it to its new place.
// A block per tile.
template <class Load, class Store>
__device__ __forceinline__ void sort_by_digit(int n, int pass, int shift, const sort_state_t& state, Load load,
                                              Store store)
{
    SPG_SHARED_2D(unsigned, counted, SPG_SORT_WARPS, SPG_DIGITS);  // by warp: first how many, then how many before
    SPG_SHARED(unsigned, first, SPG_DIGITS);  // where a digit's elements start in the tile
    SPG_SHARED(unsigned, move, SPG_DIGITS);  // from a place in the tile to the new one
    SPG_SHARED(pair_t, sorted, SPG_SORT_TILE);
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, digit_of_mine = threadIdx.x;
    const unsigned tile = next_tile(state.counters + SPG_TICKETS + pass);
    const int begin = (int)tile * SPG_SORT_TILE, held = min(SPG_SORT_TILE, n - begin);

    for (int w = 0; w < SPG_SORT_WARPS; ++w) counted[w][digit_of_mine] = 0;
    pair_t element[SPG_SORT_ITEMS];
#pragma unroll
    for (int k = 0; k < SPG_SORT_ITEMS; ++k) {
        const int i = warp * 32 * SPG_SORT_ITEMS + k * 32 + lane;
        // What pads the last tile has the highest digit and comes after all others, so it moves no point.
        element[k] = i < held ? load(begin + i) : pair_t{0xffffffffu, 0};
    }
    __syncthreads();

    // The rank of each element among those of its digit in its warp: below 512, so two share a register, and four
    // blocks fit on an SM instead of three.
    unsigned ranks[SPG_SORT_ITEMS / 2];
#pragma unroll
    for (int k = 0; k < SPG_SORT_ITEMS; ++k) {
        const unsigned digit = element[k].code >> shift & 255;
        const unsigned peers = lanes_with(digit);
        const unsigned rank = counted[warp][digit] + __popc(peers & ((1u << lane) - 1));
        ranks[k / 2] = k & 1 ? ranks[k / 2] | rank << 16 : rank;
        __syncwarp();
        if (lane == __ffs((int)peers) - 1) counted[warp][digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();

    // From here on a thread stands for a digit as well.
    unsigned sum = 0;
    for (int w = 0; w < SPG_SORT_WARPS; ++w) {
        const unsigned of_warp = counted[w][digit_of_mine];
        counted[w][digit_of_mine] = sum;
        sum += of_warp;
    }
    unsigned* mine = state.status + (long long)pass * gridDim.x * SPG_DIGITS + digit_of_mine;
    store_grid(mine + (long long)tile * SPG_DIGITS, (tile == 0 ? SPG_DIGIT_PREFIX : SPG_DIGIT_SUM) | sum);
    unsigned total;
    const unsigned in_tile = block_exclusive_sum(sum, total);
    const unsigned in_all = block_exclusive_sum(state.counters[pass * SPG_DIGITS + digit_of_mine], total);
    // Several tiles are looked at together: while one trip to L2 takes 0.7 us, a dozen tiles are done.
    unsigned before = 0;
    bool known = tile == 0;
    for (long long at = (long long)tile - 1; !known; at -= SPG_LOOK_AT_ONCE) {
        unsigned word[SPG_LOOK_AT_ONCE];
#pragma unroll
        for (int k = 0; k < SPG_LOOK_AT_ONCE; ++k)
            word[k] = at - k >= 0 ? load_grid(mine + (at - k) * SPG_DIGITS) : SPG_DIGIT_PREFIX;
#pragma unroll
        for (int k = 0; k < SPG_LOOK_AT_ONCE; ++k) {
            if (known) continue;
            while (word[k] < SPG_DIGIT_SUM) {
                spin_pause();
                word[k] = load_grid(mine + (at - k) * SPG_DIGITS);
            }
            before += word[k] & SPG_DIGIT_VALUE;
            known = word[k] >= SPG_DIGIT_PREFIX;
        }
    }
    if (tile > 0) store_grid(mine + (long long)tile * SPG_DIGITS, SPG_DIGIT_PREFIX | (before + sum));
    first[digit_of_mine] = in_tile;
    move[digit_of_mine] = in_all + before - in_tile;
    __syncthreads();

    // Through shared memory, so that elements of one digit are written side by side.
#pragma unroll
    for (int k = 0; k < SPG_SORT_ITEMS; ++k) {
        const unsigned digit = element[k].code >> shift & 255;
        sorted[first[digit] + counted[warp][digit] + (ranks[k / 2] >> 16 * (k & 1) & 0xffff)] = element[k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < held; i += SPG_SORT_THREADS) {
        const pair_t moved = sorted[i];
        store(move[moved.code >> shift & 255] + i, moved);
    }
}
