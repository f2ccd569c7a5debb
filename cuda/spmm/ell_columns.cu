// ell, column-major: Y = A X, A in ELL, slot by slot. Row-major: ell.cu.
//
// Layout   col int32, val [slots][rows] (element slot * rows + row); col is -1 from a row's last entry on. x [k][cols],
//          y [k][rows].
// Mapping  a thread per row, SPG_WIDTH columns in registers. Adjacent threads read adjacent slots and write adjacent
//          elements of y; on meshes they gather adjacent elements of x.
// Wins     on meshes and bands, the layout that ELL is made for: every access of a warp is one line.
// Loses    on rows of unequal length, whose padding is read; with far columns, as csr-row does.
// Idea     Bell and Garland, SC 2009 (ELL), with several right-hand sides.
#include "../common/stream.cuh"

#if !defined(SPG_WIDTH) || !defined(SPG_BLOCK)
#error "the host function defines SPG_WIDTH and SPG_BLOCK"
#endif

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    ell_columns(index_t rows, index_t cols, index_t slots, index_t k, const index_t* __restrict__ col,
                const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const index_t first = (index_t)blockIdx.y * SPG_WIDTH;
    const int width = k - first < SPG_WIDTH ? k - first : SPG_WIDTH;
    x += (long long)first * cols;
    value_t sum[SPG_WIDTH];
#pragma unroll
    for (int w = 0; w < SPG_WIDTH; ++w) sum[w] = 0;
    index_t next = slots > 0 ? col[row] : -1;
    for (index_t slot = 0; slot < slots; ++slot) {
        const index_t c = next;
        if (c < 0) break;
        next = slot + 1 < slots ? spg_stream(col + (long long)(slot + 1) * rows + row) : -1;
        const value_t a = spg_stream(val + (long long)slot * rows + row);
        value_t gathered[SPG_WIDTH];
#pragma unroll
        for (int w = 0; w < SPG_WIDTH; ++w) gathered[w] = w < width ? x[(long long)w * cols + c] : 0;
#pragma unroll
        for (int w = 0; w < SPG_WIDTH; ++w)
            if (w < width) sum[w] += a * gathered[w];  // never a x 0 beyond column k: a may be Inf
    }
#pragma unroll
    for (int w = 0; w < SPG_WIDTH; ++w)
        if (w < width) y[(long long)(first + w) * rows + row] = sum[w];
}
