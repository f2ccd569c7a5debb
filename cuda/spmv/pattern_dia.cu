// pattern-dia: y = A x where all stored values are the same: diagonals as bits, a thread a row of each of a few slices.
//
// Layout   diag int32 [diagonals], rising; mask uint32 [slices][diagonals]: bit l of mask[s][d] says whether row
//          i = 32 s + l has an entry in column i + diag[d]; `value` the one value. x [cols], y [rows].
// Mapping  a warp takes SPG_SLICES slices of 32 rows, one after the other. Its lanes read the words of 32 diagonals at
//          once, one each, for every slice, and turn them, so that a lane has the bits of its own rows. Then SPG_AHEAD
//          diagonals at a time, unless a ballot said that all of them are empty here: a shuffle hands round each
//          offset, for all slices; x is read at row + diag[d], in runs of 32, where the row's bit is set; all is
//          asked for before the first is added.
// Wins     on grids and bands of one value: a bit per nonzero instead of pattern-csr's 32 or dia's 32 (64), and no
//          fill is multiplied, since a place without an entry is not read.
// Loses    with more than 32 places per nonzero: the bits are then more than pattern-csr's columns.
// Idea     diagonals: Madsen, Rodrigue, Karush, 1976; bits for the pattern as in Buluc, Williams, Oliker, Demmel,
//          "Reduced-bandwidth multithreaded algorithms for sparse matrix-vector multiplication", IPDPS 2011; turning a
//          matrix of bits: Warren, Hacker's Delight, 7-3.
#include "../common/stream.cuh"

#if !defined(SPG_AHEAD) || !defined(SPG_SLICES)
#error "the host function defines SPG_AHEAD and SPG_SLICES"
#endif
#ifdef SPG_BLOCK
#define BOUNDS __launch_bounds__(SPG_BLOCK, 1)
#else
#define BOUNDS  // up to 512 threads have registers enough, whatever it takes
#endif

// Bit b of lane a becomes bit a of lane b. Halves of the matrix are exchanged, halves of those, and so on.
__device__ __forceinline__ unsigned turned(unsigned word, unsigned lane)
{
    unsigned low = 0x0000ffff;
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        const unsigned other = __shfl_xor_sync(SPG_FULL_WARP, word, half);
        word = lane & half ? (word & ~low) | (other >> half & low) : (word & low) | (other << half & ~low);
        low ^= low << (half / 2);
    }
    return word;
}

SPG_KERNEL BOUNDS pattern_dia(index_t rows, index_t diagonals, const index_t* __restrict__ diag,
                              const unsigned* __restrict__ mask, value_t value, const value_t* __restrict__ x,
                              value_t* __restrict__ y)
{
    const unsigned lane = threadIdx.x % 32;
    const long long slice = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32 * SPG_SLICES;
    if (32 * slice >= rows) return;  // whole warps only: all 32 lanes meet in the shuffles
    const unsigned row = 32 * (unsigned)slice + lane;
    const unsigned* const words = mask + slice * diagonals + lane;
    value_t sum[SPG_SLICES] = {};
    for (index_t first = 0; first < diagonals; first += 32) {
        const bool is_one = first + (index_t)lane < diagonals;
        const index_t offset = is_one ? diag[first + lane] : 0;
        unsigned bits[SPG_SLICES], any = 0;
#pragma unroll
        for (int s = 0; s < SPG_SLICES; ++s) {
            bits[s] = is_one && 32 * (slice + s) < rows ? words[(long long)s * diagonals + first] : 0;
            any |= bits[s];
        }
        const unsigned filled = __ballot_sync(SPG_FULL_WARP, any != 0);
#pragma unroll
        for (int s = 0; s < SPG_SLICES; ++s) bits[s] = turned(bits[s], lane);
#pragma unroll 1
        for (int at = 0; at < 32; at += SPG_AHEAD) {
            if (filled >> at & ((1u << SPG_AHEAD) - 1)) {
                value_t of[SPG_AHEAD][SPG_SLICES];
#pragma unroll
                for (int u = 0; u < SPG_AHEAD; ++u) {
                    const unsigned bit = 1u << (at + u);
                    // The first slice's column, which may be below 0, fits where any of the slices has an entry.
                    const index_t c = (index_t)(row + (unsigned)__shfl_sync(SPG_FULL_WARP, offset, at + u));
#pragma unroll
                    for (int s = 0; s < SPG_SLICES; ++s) of[u][s] = spg_gather_if(x + c + 32 * s, bits[s] & bit);
                }
#pragma unroll
                for (int u = 0; u < SPG_AHEAD; ++u)
#pragma unroll
                    for (int s = 0; s < SPG_SLICES; ++s) sum[s] += of[u][s];
            }
        }
    }
#pragma unroll
    for (int s = 0; s < SPG_SLICES; ++s)
        if (32 * (slice + s) + lane < rows) y[32 * (slice + s) + lane] = value * sum[s];
}
