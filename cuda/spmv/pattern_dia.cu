// pattern-dia: y = A x where all stored values are the same: diagonals as bits, a thread per row.
//
// Layout   diag int32 [diagonals], rising; mask uint32 [slices][diagonals]: bit l of mask[s][d] says whether row
//          i = 32 s + l has an entry in column i + diag[d]; `value` the one value. x [cols], y [rows].
// Mapping  a warp takes a slice of 32 rows. Its lanes read the words of 32 diagonals at once, one each; a ballot says
//          which have any entry here, and each of those is handed round by two shuffles. x is read at row + diag[d],
//          in runs of 32, SPG_AHEAD of them before the first is added.
// Wins     on lattices and bands of one value: a bit per nonzero instead of pattern-csr's 32 or dia's 32 (64), and no
//          fill is multiplied, since what is no entry is not read.
// Loses    with more than 32 places per nonzero: the bits are then more than pattern-csr's columns.
// Idea     diagonals: Madsen, Rodrigue, Karush, 1976; bits for the pattern as in Buluc, Williams, Oliker, Demmel,
//          "Reduced-bandwidth multithreaded algorithms for sparse matrix-vector multiplication", IPDPS 2011.
// Floors   (banded, 27 diagonals, 4 M rows, float32, H200) bytes: bits 13.5 MB, x and y 32 MB at 4.6 TB/s: 0.010 ms.
//          Operations: 125,000 warps x 27 reads of x of two lines each through L1 on 132 SMs at 1.75 GHz: 0.029 ms;
//          some 12 instructions for each: 40 M, 0.044 ms. Issue slots are the bound.
#include "../common/stream.cuh"

#ifndef SPG_AHEAD
#define SPG_AHEAD 4
#endif
#define SPG_FULL_WARP 0xffffffffu

SPG_KERNEL pattern_dia(index_t rows, index_t diagonals, const index_t* __restrict__ diag,
                       const unsigned* __restrict__ mask, value_t value, const value_t* __restrict__ x,
                       value_t* __restrict__ y) {
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    if (row - lane >= rows) return;  // whole warps only: all 32 lanes meet in the shuffles
    const unsigned* words = mask + row / 32 * diagonals;
    const value_t* from = x + row;
    value_t sum = 0;
    for (index_t first = 0; first < diagonals; first += 32) {
        unsigned word = 0;
        index_t offset = 0;
        if (first + lane < diagonals) {
            word = words[first + lane];
            offset = diag[first + lane];
        }
        unsigned left = __ballot_sync(SPG_FULL_WARP, word != 0);
        while (left) {
            value_t of[SPG_AHEAD];
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) {
                const int at = left ? __ffs(left) - 1 : 0;
                const unsigned bits = __shfl_sync(SPG_FULL_WARP, word, at);
                const index_t d = __shfl_sync(SPG_FULL_WARP, offset, at);
                of[u] = spg_gather_if(from + d, left && (bits >> lane & 1));
                left &= left - 1;
            }
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) sum += of[u];
        }
    }
    if (row < rows) y[row] = value * sum;
}
