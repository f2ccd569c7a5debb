// pattern-sell: y = A x where all stored values are the same: SELL-32-sigma without values, a thread per row.
//
// Layout   slice_ptr offset_t [slices + 1], col int32 [slice_ptr[slices]], perm int32 [rows] or null: as in
//          sell.cu; `value` the one value. x [cols], y [rows].
// Mapping  a warp takes a slice, a lane one of its rows; every read of col is one run of 32 elements. SPG_AHEAD
//          columns of a row are read before x is gathered for the first, and all of their x before the sum.
// Wins     where sell does, on unweighted graphs and matrices of one value: half of its bytes in single
//          precision, a third in double.
// Loses    on hubs, whose lane walks alone while 31 others wait.
// Idea     Monakov, Lokhmotov, Avetisyan, HiPEAC 2010 (sliced ELL); iso-valued matrices as in GraphBLAS (Davis,
//          ACM TOMS 2023).
#include "../common/stream.cuh"

#ifndef SPG_AHEAD
#error "the host function defines SPG_AHEAD"
#endif

// The launch bounds leave registers for all loads of a batch: left alone ptxas settles for 32.
SPG_KERNEL __launch_bounds__(1024, 1)
    pattern_sell(index_t rows, const offset_t* __restrict__ slice_ptr, const index_t* __restrict__ perm,
                 const index_t* __restrict__ col, value_t value, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= rows) return;
    const long long slice = place / 32;
    const offset_t first = slice_ptr[slice], end = slice_ptr[slice + 1];
    const index_t row = spg_stream_if(perm + place, perm != nullptr, (index_t)place);  // asked for now, used at the end
    value_t sum = 0;
    for (long long at = first + place % 32; at < end; at += 32 * SPG_AHEAD) {
        index_t c[SPG_AHEAD];
        value_t of[SPG_AHEAD];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) c[u] = spg_stream_if(col + at + 32 * u, at + 32 * u < end, -1);
        if (c[0] < 0) break;  // padding comes last in its row. And loads stay on their side of a branch
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) of[u] = spg_gather_if(x + c[u], c[u] >= 0);
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) sum += of[u];
        if (c[SPG_AHEAD - 1] < 0) break;
    }
    y[row] = value * sum;
}
