// ell, row-major: Y = A X, A in ELL, slot by slot. Column-major: ell_columns.cu.
//
// Layout   col int32, val [slots][rows] (element slot * rows + row); col is -1 from a row's last entry on. x [cols][k],
//          y [rows][k].
// Mapping  SPG_LANES lanes take a row of A and go over the columns, 16 bytes each (see dense.cuh), SPG_AHEAD slots at a
//          time. The rows of a block are neighbours, so the whole line that a slot of theirs takes is used by the
//          block, through L1.
// Wins     seldom: see ell_columns.cu for what ELL is made for.
// Loses    on rows of unequal length, whose padding is read.
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
        if (c[SPG_AHEAD - 1] < 0) break;  // entries fill a row's first slots
    }
    sum.store(y + row * k, first, k);
}
