// sell: y = A x, A in SELL-32-sigma, a thread per row.
//
// Layout   slice_ptr offset_t [slices + 1], col int32, val [slice_ptr[slices]]: slice s is a small ELL of 32
//          rows, as wide as its longest row; entry k of its lane l is at slice_ptr[s] + 32 k + l, padding has
//          column -1. perm int32 [rows] gives the row of each place 32 s + l, or is null if rows are not
//          sorted. x [cols], y [rows].
// Mapping  a warp takes a slice, a lane one of its rows; every read of col and val is one run of 32 elements.
// Wins     where rows are about equally long among neighbours (sigma = 1) or within windows of sigma rows:
//          ELL's coalesced reads with hardly any padding, and no row pointers per row.
// Loses    on hubs, whose lane walks alone while 31 others wait.
// Idea     Monakov, Lokhmotov, Avetisyan, HiPEAC 2010 (sliced ELL); Kreutzer et al., SIAM J. Sci. Comput. 2014.
#include "../common/spg.cuh"
#include "ell_row.cuh"

SPG_KERNEL SPG_ROW_BOUNDS(true)
    sell(index_t rows, const offset_t* __restrict__ slice_ptr, const index_t* __restrict__ perm,
         const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
         value_t* __restrict__ y)
{
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= rows) return;
    const long long slice = place / 32;
    const offset_t first = slice_ptr[slice], end = slice_ptr[slice + 1];
    const index_t row = spg_stream_if(perm + place, perm != nullptr, (index_t)place);  // asked for now, used at the end
    y[row] = ell_row<true>(first + place % 32, end, 32, col, val, x);
}
