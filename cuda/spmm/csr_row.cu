// csr-row, row-major: Y = A X, A in CSR, neighbouring lanes on a row of A. Column-major: csr_row_columns.cu.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols][k], y [rows][k].
// Mapping  groups of lanes go over the columns, 16 bytes a lane (dense.cuh); some share a row, and take one row after
//          another (rows.cuh). While rows of X are in flight, the next entries are read, and the ends of the next row
//          but one. `ahead` entries of A and `x_values` of X are asked into the L2 first: all of a small matrix, or 0.
// Wins     on rows of about equal length: all reads are whole lines, nothing is staged.
// Loses    on skewed rows: a warp waits for its longest row, the grid for a hub.
// Idea     row splitting: Yang, Buluc, Owens, "Design principles for sparse matrix multiplication on the GPU", 2018.
#include "rows.cuh"

struct bounds_t {
    offset_t begin, end;
};

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_PER_SM / SPG_BLOCK)
    csr_row(index_t rows, index_t stride, index_t steps, index_t k, long long ahead, long long x_values,
            const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col, const value_t* __restrict__ val,
            const value_t* __restrict__ x, value_t* __restrict__ y)
{
    row_walk at(rows, stride, steps);
    auto bounds = [&](unsigned row) {  // beyond the last row: none, since all lanes meet in shuffles
        bounds_t b;
        b.begin = spg_gather_if(row_ptr + row, row < at.last);
        b.end = spg_gather_if(row_ptr + row + 1, row < at.last);
        return b;
    };
    auto load = [&](offset_t begin, offset_t end) {
        entries_t e;
#pragma unroll
        for (int h = 0; h < SPG_HELD; ++h) {
            const unsigned i = entry_of_lane(h);
            const bool there = i < SPG_CHUNK && (offset_t)i < end - begin;
            e.c[h] = spg_stream_if(col + begin + i, there, SPG_NONE);
            e.a[h] = spg_stream_if(val + begin + i, there);
        }
        return e;
    };
    bounds_t now = bounds(at.row), next = bounds(at.row + at.stride);
    prefetch_by_grid(col, ahead * (long long)sizeof(index_t));
    prefetch_by_grid(val, ahead * (long long)sizeof(value_t));
    prefetch_by_grid(x, x_values * (long long)sizeof(value_t));
    const index_t first = first_column();
    entries_t entries = load(now.begin, now.end);
    for (unsigned step = 0; step < at.steps; ++step, at.row += at.stride) {
        const bounds_t after = bounds(at.row + 2 * at.stride);
        const unsigned length = (unsigned)(now.end - now.begin);
        unsigned longest = length;  // of the warp's rows
#pragma unroll
        for (int distance = SPG_ROW_LANES; distance < 32; distance *= 2) {
            const unsigned other = __shfl_xor_sync(SPG_FULL_WARP, longest, distance);
            longest = other > longest ? other : longest;
        }
        pieces_t sum;
        sum.clear();
        unsigned done = 0;
        do {
            const bool more = done + SPG_CHUNK < longest;  // of this row
            const offset_t begin = more ? now.begin + (offset_t)(done + SPG_CHUNK) : next.begin;
            const entries_t soon = load(begin, more ? now.end : next.end);
            add_chunk(sum, entries, longest - done, x, first, k);
            entries = soon;
            done += SPG_CHUNK;
        } while (done < longest);
        finish_row(sum, at, y, first, k);
        now = next;
        next = after;
    }
}
