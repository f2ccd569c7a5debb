// ell, row-major: Y = A X, A in ELL, slot by slot. Column-major: ell_columns.cu.
//
// Layout   col int32, val [slots][rows] (element slot * rows + row); col is -1 from a row's last entry on. x [cols][k],
//          y [rows][k].
// Mapping  as csr-row: groups of lanes take one row after another (rows.cuh), and read the next slots while rows of X
//          are in flight. The rows of a block are neighbours, so the whole line that a slot of theirs takes is used by
//          the block, through L1. `x_values` of X are asked into the L2 first: all of a small one, or 0.
// Wins     on rows of equal length: the first entries are read without waiting for row offsets.
// Loses    on rows of unequal length, whose padding is read.
// Idea     Bell and Garland, SC 2009 (ELL), with several right-hand sides.
#include "rows.cuh"

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_PER_SM / SPG_BLOCK)
    ell_rows(index_t rows, index_t stride, index_t steps, index_t slots, index_t k, long long x_values,
             const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
             value_t* __restrict__ y)
{
    row_walk at(rows, stride, steps);
    auto load = [&](unsigned row, unsigned slot) {
        entries_t e;
#pragma unroll
        for (int h = 0; h < SPG_HELD; ++h) {
            const unsigned i = entry_of_lane(h);
            const bool there = i < SPG_CHUNK && slot + i < (unsigned)slots && row < at.last;
            const long long place = (long long)(slot + i) * rows + row;
            e.c[h] = gather_column(col + place, there);
            e.a[h] = spg_gather_if(val + place, there);
        }
        return e;
    };
    entries_t entries = load(at.row, 0);
    prefetch_by_grid(x, x_values * (long long)sizeof(value_t));
    const index_t first = first_column();
    for (unsigned step = 0; step < at.steps; ++step, at.row += at.stride) {
        pieces_t sum;
        sum.clear();
        unsigned slot = 0;
        do {
            const bool more = slot + SPG_CHUNK < (unsigned)slots;  // of this row
            const entries_t soon = load(more ? at.row : at.row + at.stride, more ? slot + SPG_CHUNK : 0);
            add_chunk(sum, entries, (unsigned)slots - slot, x, first, k);
            entries = soon;
            slot += SPG_CHUNK;
        } while (slot < (unsigned)slots);
        finish_row(sum, at, y, first, k);
    }
}
