// What is done with every entry of a CSR matrix but to convert it: see compiled.py.
//
// Each function does a range of rows. Columns rise within a row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "../csr.hpp"

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint8_t;

namespace {

// The root of v's tree. Every other vertex on the way gets its parent's parent as parent: whatever other threads do,
// that remains an ancestor.
int32_t root_of(int32_t* parent, int32_t v)
{
    for (;;) {
        const int32_t above = __atomic_load_n(parent + v, __ATOMIC_RELAXED);
        if (above == v) return v;
        const int32_t next = __atomic_load_n(parent + above, __ATOMIC_RELAXED);
        if (next != above) __atomic_store_n(parent + v, next, __ATOMIC_RELAXED);
        v = above;
    }
}

}  // namespace

// Adds the entries of rows [first, last) to those of each column, and of each diagonal (index: column - row + rows -
// 1), and their distances from the diagonal to `distance`.
SPG_EXPORT void spg_places(const matrix* a, int64_t first, int64_t last, int32_t* columns, int32_t* diagonals,
                           int64_t* distance)
{
    int64_t sum = 0;
    for (int64_t row = first; row < last; ++row) {
        int32_t* const of_row = diagonals + (a->rows - 1 - row);
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            const int32_t col = a->col_idx[entry];
            ++columns[col];
            ++of_row[col];
            sum += std::abs(col - row);
        }
    }
    *distance += sum;
}

// Marks the diagonals of entries in rows [first, last), col - origin at occupied[col - origin + rows]; `group` rows
// have one origin. Threads may mark one place together.
SPG_EXPORT void spg_diagonals(const matrix* a, int64_t first, int64_t last, int64_t group, uint8_t* occupied)
{
    for (int64_t row = first; row < last; ++row) {
        uint8_t* const of_row = occupied + (a->rows - (row - row % group));
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            uint8_t* const mark = of_row + a->col_idx[entry];
            if (!__atomic_load_n(mark, __ATOMIC_RELAXED)) __atomic_store_n(mark, uint8_t(1), __ATOMIC_RELAXED);
        }
    }
}

// The blocks of r x c of block rows [first, last), int64 [last - first] from lengths[first] on. `seen`: for each block
// column the last block row, counted from 1, that it was found in.
SPG_EXPORT void spg_block_lengths(const matrix* a, int64_t first, int64_t last, int64_t r, int64_t c, uint32_t* seen,
                                  int64_t* lengths)
{
    const auto width = static_cast<uint32_t>(c);  // of columns, which have 31 bits: a short division
    for (int64_t block_row = first; block_row < last; ++block_row) {
        const int64_t bottom = std::min((block_row + 1) * r, a->rows);
        const auto mark = static_cast<uint32_t>(block_row + 1);
        int64_t count = 0;
        for (int64_t entry = a->row_ptr[block_row * r]; entry < a->row_ptr[bottom]; ++entry) {
            uint32_t& last_seen = seen[static_cast<uint32_t>(a->col_idx[entry]) / width];
            count += last_seen != mark;
            last_seen = mark;
        }
        lengths[block_row] = count;
    }
}

// Of a square matrix: adds to counts[0] the entries of rows [first, last) above the diagonal, to counts[1] all below
// it; and of those above to counts[2] the ones with a mirror below, to [3] with an equal one (NaN is equal to NaN), and
// to [4] with an opposite one.
SPG_EXPORT void spg_mirrored(const matrix* a, int64_t first, int64_t last, int64_t* counts)
{
    int64_t above = 0, below = 0, mirrored = 0, equal = 0, opposite = 0;
    for (int64_t row = first; row < last; ++row) {
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            const int64_t col = a->col_idx[entry];
            below += col < row;
            if (col <= row) continue;
            ++above;
            const int32_t* const end = a->col_idx + a->row_ptr[col + 1];
            const int32_t* const place = std::lower_bound(a->col_idx + a->row_ptr[col], end, static_cast<int32_t>(row));
            if (place == end || *place != row) continue;
            ++mirrored;
            if (!a->values) continue;
            const double mine = a->values[entry], its = a->values[place - a->col_idx];
            const bool both_nan = std::isnan(mine) && std::isnan(its);
            equal += mine == its || both_nan;
            opposite += mine == -its || both_nan;
        }
    }
    const int64_t sums[] = {above, below, mirrored, equal, opposite};
    for (int k = 0; k < 5; ++k) counts[k] += sums[k];
}

// How often each column occurs among entries [first, last).
SPG_EXPORT void spg_count_columns(const int32_t* col_idx, int64_t first, int64_t last, int64_t* counts)
{
    for (int64_t entry = first; entry < last; ++entry) ++counts[col_idx[entry]];
}

// The transpose of rows [first, last): rows of each column's entries, rising, and values. `next`: where the next entry
// of each column goes.
SPG_EXPORT void spg_transpose(const matrix* a, int64_t first, int64_t last, int64_t* next, int32_t* row_idx,
                              double* values)
{
    for (int64_t row = first; row < last; ++row) {
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            const int64_t place = next[a->col_idx[entry]]++;
            row_idx[place] = static_cast<int32_t>(row);
            if (values) values[place] = a->values[entry];
        }
    }
}

// Whether each of rows [first, last) has an entry on the diagonal.
SPG_EXPORT void spg_loops(const matrix* a, int64_t first, int64_t last, uint8_t* loop)
{
    for (int64_t row = first; row < last; ++row) {
        loop[row] = std::binary_search(a->col_idx + a->row_ptr[row], a->col_idx + a->row_ptr[row + 1],
                                       static_cast<int32_t>(row));
    }
}

// Joins the trees of both ends of the edges of rows [first, last); of a symmetric graph every edge once is enough. A
// root is the least vertex of its tree. Threads do it together, each with other rows.
SPG_EXPORT void spg_join(const matrix* a, int64_t first, int64_t last, int64_t symmetric, int32_t* parent)
{
    for (int64_t row = first; row < last; ++row) {
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry) {
            if (symmetric && a->col_idx[entry] > row) break;
            int32_t upper = static_cast<int32_t>(row), lower = a->col_idx[entry];
            for (;;) {
                upper = root_of(parent, upper);
                lower = root_of(parent, lower);
                if (upper == lower) break;
                if (upper < lower) std::swap(upper, lower);
                int32_t expected = upper;  // still a root?
                if (__atomic_compare_exchange_n(parent + upper, &expected, lower, false, __ATOMIC_RELAXED,
                                                __ATOMIC_RELAXED)) {
                    break;
                }
            }
        }
    }
}

// Each of vertices [first, last) gets its root as parent.
SPG_EXPORT void spg_roots(int64_t first, int64_t last, int32_t* parent)
{
    for (int64_t v = first; v < last; ++v) {
        __atomic_store_n(parent + v, root_of(parent, static_cast<int32_t>(v)), __ATOMIC_RELAXED);
    }
}

// Vertices [first, last) of a search with these levels (-1: not reached) by level: how many, their out-edges, and their
// in-edges (those not reached at depth + 1); and of those found in a level, with the level before theirs as index, the
// in-edges up to the first from a vertex of that level. counts: int64 [4][depth + 2]. Null in_ptr: no in-edges.
SPG_EXPORT void spg_level_work(const int32_t* level, int64_t first, int64_t last, int64_t depth, const int64_t* degree,
                               const int64_t* in_ptr, const int32_t* in_row, int64_t* counts)
{
    int64_t *vertices = counts, *edges = vertices + depth + 2, *waiting = edges + depth + 2,
            *looks = waiting + depth + 2;
    for (int64_t v = first; v < last; ++v) {
        const int64_t mine = level[v];
        if (mine >= 0) {
            ++vertices[mine];
            edges[mine] += degree[v];
        }
        if (!in_ptr) continue;
        waiting[mine >= 0 ? mine : depth + 1] += in_ptr[v + 1] - in_ptr[v];
        if (mine <= 0) continue;
        for (int64_t entry = in_ptr[v]; entry < in_ptr[v + 1]; ++entry) {
            if (level[in_row[entry]] != mine - 1) continue;
            looks[mine - 1] += entry - in_ptr[v] + 1;
            break;
        }
    }
}
