// ell: Y = A X, A in ELL, slot by slot.
//
// Layout   col int32, val [slots][rows] (element slot * rows + row); col is -1 from a row's last entry on.
//          Row-major: x [cols][k], y [rows][k]. Column-major: x [k][cols], y [k][rows].
// Mapping  ell_rows (row-major): SPG_LANES lanes take a row of A and go over the columns, 16 bytes each (see
//          dense.cuh), SPG_AHEAD slots at a time. The rows of a block are neighbours, so the whole line that a slot
//          of theirs takes is used by the block, through L1.
//          ell_columns (column-major): a thread per row, SPG_WIDTH columns in registers. Adjacent threads read
//          adjacent slots and write adjacent elements of y; on meshes they gather adjacent elements of x.
// Wins     column-major on meshes and bands, the layout that ELL is made for: every access of a warp is one line.
// Loses    on rows of unequal length, whose padding is read; column-major with far columns, as csr-row does.
// Idea     Bell and Garland, SC 2009 (ELL), with several right-hand sides.
#include "dense.cuh"

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    ell_rows(index_t rows, index_t slots, index_t k, const index_t* __restrict__ col, const value_t* __restrict__ val,
             const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_LANES;
    if (row >= rows) return;
    const index_t first = first_column();
    pieces_t sum;
    sum.clear();
    for (index_t slot = 0; slot < slots; slot += SPG_AHEAD) {
        index_t c[SPG_AHEAD];
        value_t a[SPG_AHEAD];
        pieces_t piece[SPG_AHEAD];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) {
            c[u] = -1;
            a[u] = 0;
            if (slot + u < slots) {
                c[u] = col[(long long)(slot + u) * rows + row];
                a[u] = val[(long long)(slot + u) * rows + row];
            }
        }
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) piece[u].load(x + (long long)c[u] * k, first, k, c[u] >= 0);
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) sum.add(a[u], piece[u]);  // padding: 0 x 0
        if (c[SPG_AHEAD - 1] < 0) break;                              // entries fill a row's first slots
    }
    sum.store(y + row * k, first, k);
}

#ifndef SPG_WIDTH
#define SPG_WIDTH 8
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
