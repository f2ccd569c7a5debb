// What conversions do with every entry of a CSR matrix: see compiled.py.
//
// Each function does a range of rows, parts or bins, so that several threads share the work; no two ranges write the
// same element. Arrays are numpy's, by address; shapes and invariants of what is written are in the formats'
// docstrings, where numpy says the same in few lines. `values` may be null: then every entry is 1.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "../csr.hpp"

namespace {

using std::int32_t;
using std::int64_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;

constexpr int32_t kPadding = -1;
constexpr uint16_t kHole = 0xFFFF;
constexpr int64_t kGroup = 8;
constexpr int64_t kSlice = 32;

template <class Value>
Value value_of(const matrix& a, int64_t entry)
{
    return a.values ? static_cast<Value>(a.values[entry]) : Value(1);
}

// One row into slots that are `stride` apart, then padding up to `width`.
template <class Value>
void fill_row(const matrix& a, int64_t row, int64_t slot, int64_t stride, int64_t width, int32_t* col, Value* val)
{
    const int64_t begin = a.row_ptr[row];
    const int64_t length = std::min(a.row_ptr[row + 1] - begin, width);
    for (int64_t k = 0; k < length; ++k, slot += stride) {
        col[slot] = a.col_idx[begin + k];
        val[slot] = value_of<Value>(a, begin + k);
    }
    for (int64_t k = length; k < width; ++k, slot += stride) {
        col[slot] = kPadding;
        val[slot] = Value(0);
    }
}

template <class Value>
void ell(const matrix& a, int64_t first, int64_t last, int64_t slots, int32_t* col, Value* val)
{
    for (int64_t row = first; row < last; ++row) fill_row(a, row, row, a.rows, slots, col, val);
}

// Slices [first, last) of 32 rows of `order`, slot by slot of all their rows: what is written follows each other, and
// what is read are 32 rows, each from its begin to its end.
template <class Value>
void sell(const matrix& a, int64_t first, int64_t last, const int64_t* slice_ptr, const int64_t* order, int32_t* col,
          Value* val)
{
    for (int64_t slice = first; slice < last; ++slice) {
        const int64_t width = (slice_ptr[slice + 1] - slice_ptr[slice]) / kSlice;
        int64_t entry[kSlice], end[kSlice];
        for (int64_t lane = 0; lane < kSlice; ++lane) {
            const int64_t place = slice * kSlice + lane;
            const int64_t row = place >= a.rows ? -1 : order ? order[place] : place;
            entry[lane] = row < 0 ? 0 : a.row_ptr[row];
            end[lane] = row < 0 ? 0 : a.row_ptr[row + 1];
        }
        for (int64_t slot = slice_ptr[slice]; slot < slice_ptr[slice] + width * kSlice; slot += kSlice) {
            for (int64_t lane = 0; lane < kSlice; ++lane) {
                const bool there = entry[lane] < end[lane];
                col[slot + lane] = there ? a.col_idx[entry[lane]] : kPadding;
                val[slot + lane] = there ? value_of<Value>(a, entry[lane]) : Value(0);
                entry[lane] += there;
            }
        }
    }
}

template <class Value>
void jds(const matrix& a, int64_t first, int64_t last, const int32_t* perm, const int64_t* slot_start, int32_t* col,
         Value* val)
{
    for (int64_t place = first; place < last; ++place) {
        const int64_t begin = a.row_ptr[perm[place]], length = a.row_ptr[perm[place] + 1] - begin;
        for (int64_t k = 0; k < length; ++k) {
            col[slot_start[k] + place] = a.col_idx[begin + k];
            val[slot_start[k] + place] = value_of<Value>(a, begin + k);
        }
    }
}

// The entries of rows [first, last) after the first `slots` of each, those of a row from place[row] on.
template <class Value>
void tail(const matrix& a, int64_t first, int64_t last, int64_t slots, const int64_t* place, int32_t* row_of,
          int32_t* col, Value* val)
{
    for (int64_t row = first; row < last; ++row) {
        int64_t to = place[row];
        for (int64_t entry = a.row_ptr[row] + slots; entry < a.row_ptr[row + 1]; ++entry, ++to) {
            row_of[to] = static_cast<int32_t>(row);
            col[to] = a.col_idx[entry];
            val[to] = value_of<Value>(a, entry);
        }
    }
}

// Elements [first, last) of an assembly, as coo_unsorted.py describes it; `turned` is the transpose.
template <class Value>
void elements(const matrix& a, const matrix& turned, int64_t first, int64_t last, int32_t* row_of, int32_t* col,
              Value* val)
{
    for (int64_t k = first; k < last; ++k) {
        const int64_t row_end = a.row_ptr[std::min(k + 1, a.rows)], col_end = turned.row_ptr[std::min(k + 1, a.cols)];
        const int64_t row_begin = a.row_ptr[std::min(k, a.rows)], col_begin = turned.row_ptr[std::min(k, a.cols)];
        int64_t to = row_begin + col_begin;
        for (int64_t entry = row_begin; entry < row_end; ++entry, ++to) {
            row_of[to] = static_cast<int32_t>(k);
            col[to] = a.col_idx[entry];
            val[to] = value_of<Value>(a, entry) / 2;
        }
        for (int64_t entry = col_begin; entry < col_end; ++entry, ++to) {
            const Value value = value_of<Value>(turned, entry);
            row_of[to] = turned.col_idx[entry];
            col[to] = static_cast<int32_t>(k);
            val[to] = std::isfinite(value) ? value - value / 2 : value;
        }
    }
}

// Whole numbers into parts that add up to them: those of an element's row into the lower half, of its column into the
// rest. row_before, col_before: entries of all rows and columns before each element.
template <class Value>
void whole_parts(int64_t first, int64_t last, const int64_t* row_before, const int64_t* col_before, Value* val)
{
    for (int64_t k = first; k < last; ++k) {
        int64_t at = row_before[k] + col_before[k];
        for (; at < row_before[k + 1] + col_before[k]; ++at) val[at] = std::floor(val[at] / 2);
        for (; at < row_before[k + 1] + col_before[k + 1]; ++at) val[at] -= std::floor(val[at] / 2);
    }
}

template <class Value>
void csc(const matrix& a, int64_t first, int64_t last, int64_t* next, int32_t* row_of, Value* val)
{
    for (int64_t row = first; row < last; ++row) {
        for (int64_t entry = a.row_ptr[row]; entry < a.row_ptr[row + 1]; ++entry) {
            const int64_t place = next[a.col_idx[entry]]++;
            row_of[place] = static_cast<int32_t>(row);
            val[place] = value_of<Value>(a, entry);
        }
    }
}

// The entries of rows [first, last) into slices of 128 rows, `width` diagonals each, as dia.py describes it.
template <class Value>
void dia(const matrix& a, int64_t first, int64_t last, int64_t group, const int64_t* place, int64_t width, Value* val)
{
    constexpr int64_t kRows = 128;
    for (int64_t row = first; row < last; ++row) {
        const int64_t* const of_row = place + (a.rows - (row - row % group));
        Value* const to = val + row / kRows * width * kRows + row % kRows;
        for (int64_t entry = a.row_ptr[row]; entry < a.row_ptr[row + 1]; ++entry)
            to[of_row[a.col_idx[entry]]] = value_of<Value>(a, entry);
    }
}

int64_t groups_of(int64_t entries) { return (entries + kGroup - 1) / kGroup; }

// The parts of rows [first, last) that are bin b, as binned.py forms them.
struct parts {
    const int64_t *bin_part, *start, *length;
};

template <class Value>
void binned(const matrix& a, int64_t first, int64_t last, const parts& p, int64_t width, int64_t tiles,
            const int32_t* groups, const int64_t* multiply_group, const int64_t* bin_group, int64_t* scratch,
            uint16_t* pos, uint16_t* col, Value* val, int32_t* dest)
{
    int64_t *const taken = scratch, *const sum_group = scratch + tiles;  // of each tile in this bin
    for (int64_t bin = first; bin < last; ++bin) {
        const int32_t* const count = groups + bin * tiles;
        const int64_t* const to = multiply_group + bin * tiles;
        int64_t group = bin_group[bin];
        for (int64_t tile = 0; tile < tiles; ++tile) {
            taken[tile] = 0;
            sum_group[tile] = group;
            group += count[tile];
        }
        int64_t place = 0;
        for (int64_t part = p.bin_part[bin]; part < p.bin_part[bin + 1]; ++part) {
            for (int64_t k = 0; k < p.length[part]; ++k, ++place) {
                const int64_t entry = p.start[part] + k;
                const int64_t tile = a.col_idx[entry] / width, slot = taken[tile]++;
                pos[sum_group[tile] * kGroup + slot] = static_cast<uint16_t>(place);
                col[to[tile] * kGroup + slot] = static_cast<uint16_t>(a.col_idx[entry] - tile * width);
                val[to[tile] * kGroup + slot] = value_of<Value>(a, entry);
            }
        }
        for (int64_t tile = 0; tile < tiles; ++tile) {
            for (int64_t slot = taken[tile]; slot < count[tile] * kGroup; ++slot) {
                pos[sum_group[tile] * kGroup + slot] = kHole;
                col[to[tile] * kGroup + slot] = 0;
                val[to[tile] * kGroup + slot] = Value(0);
            }
            for (int64_t g = 0; g < count[tile]; ++g) dest[to[tile] + g] = static_cast<int32_t>(sum_group[tile] + g);
        }
    }
}

// Bins of consecutive entries, as binned_chunks.py cuts them.
struct bins {
    const int64_t *entry, *first, *end;
    int64_t share, spare;  // SHARE and SPARE
};

// The sums that a row of `length` of its bin's `entries` entries is spread over.
int64_t sums_of(int64_t length, int64_t entries, int64_t share)
{
    const int64_t least = std::max(entries, 2 * share);
    return std::max<int64_t>(1, (length * share + least - 1) / least);
}

int64_t length_in(const matrix& a, int64_t row, int64_t start, int64_t stop)
{
    return std::min(a.row_ptr[row + 1], stop) - std::min(std::max(a.row_ptr[row], start), stop);
}

// Sorts `count` keys whose upper half is a share of 16 bits, spread evenly: by its first bits, about eight keys to each
// value, and then by looking at neighbours.
void sort_by_share(uint64_t* keys, int64_t count, uint64_t* other)
{
    constexpr int kLeast = 6, kMost = 12, kTop = 56;
    if (count < 64 || count > int64_t(32) << kMost) {
        std::sort(keys, keys + count);
        return;
    }
    int bits = kLeast;
    while (bits < kMost && count >> bits > 8) ++bits;
    const uint64_t values = uint64_t(1) << bits;
    const auto digit = [=](uint64_t key) { return key >> (kTop - bits) & (values - 1); };
    int32_t place[(1 << kMost) + 1];
    std::fill(place, place + values + 1, 0);
    for (int64_t k = 0; k < count; ++k) ++place[digit(keys[k]) + 1];
    for (uint64_t value = 0; value < values; ++value) place[value + 1] += place[value];
    for (int64_t k = 0; k < count; ++k) other[place[digit(keys[k])]++] = keys[k];
    for (int64_t k = 0; k < count; ++k) {
        int64_t at = k;
        for (; at > 0 && keys[at - 1] > other[k]; --at) keys[at] = keys[at - 1];
        keys[at] = other[k];
    }
}

struct chunk_places {
    const uint16_t* tile_of;
    const int64_t *tile_col, *multiply_group, *bin_group, *chunk_group, *extra_ptr;
    const int32_t* groups;
};

// Scratch: slot and key of each entry of a bin, room for as many keys, 65 counters for each tile and one more.
template <class Value>
void chunked(const matrix& a, int64_t first, int64_t last, const bins& b, int64_t tiles, const chunk_places& at,
             int32_t* slot_of, uint64_t* sorted, uint64_t* spare_keys, int64_t* scratch, uint16_t* sum, uint16_t* col,
             Value* val, int32_t* dest, uint16_t* extra_row)
{
    constexpr int64_t kBanks = 32, kShares = 32767;
    int64_t *const of_bank = scratch, *const seen = scratch + tiles * kBanks, *const begin = seen + tiles * kBanks;
    for (int64_t bin = first; bin < last; ++bin) {
        const int64_t start = b.entry[bin], stop = b.entry[bin + 1], entries = stop - start;
        const int64_t rows = b.end[bin] - b.first[bin];
        int64_t extras = at.extra_ptr[bin];
        // Long rows: entry i of a row with s slots goes to slot i mod s.
        int64_t done = 0;
        for (int64_t row = 0; row < rows; ++row) {
            const int64_t length = length_in(a, b.first[bin] + row, start, stop);
            const int64_t sums = sums_of(length, entries, b.share);
            const int64_t more = rows + extras - at.extra_ptr[bin] - 1;
            for (int64_t k = 0; k < length; ++k) {
                const int64_t turn = sums == 1 ? 0 : k % sums;
                slot_of[done++] = static_cast<int32_t>(turn ? more + turn : row);
            }
            for (int64_t k = 1; k < sums; ++k) extra_row[extras++] = static_cast<uint16_t>(row);
        }
        std::fill(scratch, begin + tiles + 1, 0);
        for (int64_t i = 0; i < entries; ++i) {
            ++of_bank[at.tile_of[a.col_idx[start + i]] * kBanks + (slot_of[i] & 31)];
        }
        for (int64_t tile = 0; tile < tiles; ++tile) {
            begin[tile + 1] = begin[tile];
            for (int64_t bank = 0; bank < kBanks; ++bank) begin[tile + 1] += of_bank[tile * kBanks + bank];
        }
        // Within a bucket: the entries of each bank spread evenly over it. Keys: share, bank, entry.
        for (int64_t i = 0; i < entries; ++i) {
            const int64_t tile = at.tile_of[a.col_idx[start + i]], bank = slot_of[i] & 31;
            const int64_t rank = seen[tile * kBanks + bank]++, count = of_bank[tile * kBanks + bank];
            const uint64_t share = static_cast<uint64_t>((2 * rank + 1) * kShares / count) & 0xFFFF;
            sorted[begin[tile]++] = share << 40 | static_cast<uint64_t>(bank) << 32 | static_cast<uint64_t>(i);
        }
        const int64_t spare = rows + extras - at.extra_ptr[bin];
        int64_t group = at.bin_group[bin], before = 0;
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t end = begin[tile], bucket = end - before, count = at.groups[bin * tiles + tile];
            const int64_t to = at.multiply_group[bin * tiles + tile];
            sort_by_share(sorted + before, bucket, spare_keys);
            for (int64_t place = 0; place < count * kGroup; ++place) {  // padding, most of which is written over
                const int64_t slot = group * kGroup + place, in_bin = slot - at.bin_group[bin] * kGroup;
                sum[slot] = static_cast<uint16_t>(spare + in_bin / 4 % b.spare);
                col[to * kGroup + place] = 0;
                val[to * kGroup + place] = Value(0);
            }
            // Threads take four slots each, side by side: what is next to each other in turn goes to every fourth.
            const uint64_t* next = sorted + before;
            for (int64_t column = 0; column < 4; ++column) {
                const int64_t height = bucket / 4 + (column < bucket % 4);
                for (int64_t k = 0; k < height; ++k, ++next) {
                    const int64_t i = static_cast<int64_t>(*next & 0xFFFFFFFF), place = 4 * k + column;
                    sum[group * kGroup + place] = static_cast<uint16_t>(slot_of[i]);
                    col[to * kGroup + place] = static_cast<uint16_t>(a.col_idx[start + i] - at.tile_col[tile]);
                    val[to * kGroup + place] = value_of<Value>(a, start + i);
                }
            }
            for (int64_t g = 0; g < count; ++g) dest[to + g] = static_cast<int32_t>(group + g - at.chunk_group[bin]);
            group += count;
            before = end;
        }
    }
}

// The blocks of block rows [first, last), each with its columns rising. `place`: any number for each block column.
template <class Value>
void bsr(const matrix& a, int64_t first, int64_t last, int64_t r, int64_t c, const int64_t* block_ptr, int64_t* place,
         int32_t* block_col, Value* block_val)
{
    for (int64_t block_row = first; block_row < last; ++block_row) {
        const int64_t begin = block_ptr[block_row], top = block_row * r, bottom = std::min(top + r, a.rows);
        int64_t end = begin;
        for (int64_t entry = a.row_ptr[top]; entry < a.row_ptr[bottom]; ++entry) {
            const int32_t column = static_cast<int32_t>(a.col_idx[entry] / c);
            const int64_t known = place[column];  // a place in this block row that is taken by this column, or not
            if (known >= begin && known < end && block_col[known] == column) continue;
            place[column] = end;
            block_col[end++] = column;
        }
        std::sort(block_col + begin, block_col + end);
        for (int64_t block = begin; block < end; ++block) place[block_col[block]] = block;
        std::fill(block_val + begin * r * c, block_val + end * r * c, Value(0));
        for (int64_t row = top; row < bottom; ++row) {
            for (int64_t entry = a.row_ptr[row]; entry < a.row_ptr[row + 1]; ++entry) {
                const int64_t column = a.col_idx[entry] / c;
                const int64_t element = (row - top) * c + a.col_idx[entry] - column * c;
                block_val[place[column] * r * c + element] = value_of<Value>(a, entry);
            }
        }
    }
}

struct blocks {
    int64_t block_rows, elements, wide, rest, w;  // w: elements of 16 bytes
    const int64_t *block_ptr, *slice_ptr;
    const int32_t *base, *block_col;
    int64_t narrow;  // whether columns are stored in 16 bits
};

// Slices [first, last) of 32 block rows: the k-th blocks of all of them together, as bsr.py describes it.
template <class Value>
void sliced(const blocks& b, int64_t first, int64_t last, const Value* block_val, void* block_col, Value* wide_val,
            Value* rest_val)
{
    for (int64_t slice = first; slice < last; ++slice) {
        const int64_t top = slice * kSlice, bottom = std::min(top + kSlice, b.block_rows);
        int64_t start = b.slice_ptr[slice];
        const int64_t end = start + b.block_ptr[bottom] - b.block_ptr[top];
        for (int64_t k = 0; start < end; ++k) {
            int64_t count = 0, rank = 0;
            for (int64_t row = top; row < bottom; ++row) count += b.block_ptr[row + 1] - b.block_ptr[row] > k;
            for (int64_t row = top; row < bottom; ++row) {
                if (b.block_ptr[row + 1] - b.block_ptr[row] <= k) continue;
                const int64_t source = b.block_ptr[row] + k;
                const int32_t column = b.block_col[source] - b.base[slice];
                if (b.narrow) {
                    static_cast<uint16_t*>(block_col)[start + rank] = static_cast<uint16_t>(column);
                } else {
                    static_cast<int32_t*>(block_col)[start + rank] = column;
                }
                const Value* const block = block_val + source * b.elements;
                for (int64_t q = 0; q < b.wide; ++q) {
                    std::copy(block + q * b.w, block + (q + 1) * b.w,
                              wide_val + (start * b.wide + q * count + rank) * b.w);
                }
                for (int64_t e = 0; e < b.rest; ++e) {
                    rest_val[start * b.rest + e * count + rank] = block[b.wide * b.w + e];
                }
                ++rank;
            }
            start += count;
        }
    }
}

}  // namespace

// Places [first, last) of rows by length, longest first, rows of one length in their order, in windows of `sigma` rows;
// and the longest row of each slice of 32. `scratch`: 5 sigma + 2. first is a multiple of sigma and of 32.
SPG_EXPORT void spg_order(const int64_t* lengths, int64_t first, int64_t last, int64_t sigma, uint64_t* scratch,
                          int64_t* order, int64_t* widths)
{
    for (int64_t window = first; window < last; window += sigma) {
        const int64_t end = std::min(window + sigma, last);
        const int64_t most = *std::max_element(lengths + window, lengths + end);
        if (most <= 4 * sigma) {  // counted: one place after another for each length
            std::fill(scratch, scratch + most + 2, 0);
            for (int64_t row = window; row < end; ++row) ++scratch[most - lengths[row] + 1];
            for (int64_t k = 0; k < most; ++k) scratch[k + 1] += scratch[k];
            for (int64_t row = window; row < end; ++row) {
                order[window + static_cast<int64_t>(scratch[most - lengths[row]]++)] = row;
            }
        } else {
            for (int64_t row = window; row < end; ++row) {
                scratch[row - window] =
                    static_cast<uint64_t>(most - lengths[row]) << 32 | static_cast<uint64_t>(row - window);
            }
            std::sort(scratch, scratch + (end - window));
            for (int64_t k = 0; k < end - window; ++k) {
                order[window + k] = window + static_cast<int64_t>(scratch[k] & 0xFFFFFFFF);
            }
        }
        for (int64_t place = window; place < end; ++place) {
            widths[place / kSlice] = std::max(widths[place / kSlice], lengths[order[place]]);
        }
    }
}

// Groups of each bucket (bin, tile), int32 [bins][tiles], of bins [first, last) of parts of rows.
SPG_EXPORT void spg_binned_groups(const matrix* a, int64_t first, int64_t last, const parts* p, int64_t width,
                                  int64_t tiles, int32_t* groups)
{
    for (int64_t bin = first; bin < last; ++bin) {
        int32_t* const count = groups + bin * tiles;
        std::fill(count, count + tiles, 0);
        for (int64_t part = p->bin_part[bin]; part < p->bin_part[bin + 1]; ++part) {
            for (int64_t k = 0; k < p->length[part]; ++k) ++count[a->col_idx[p->start[part] + k] / width];
        }
        for (int64_t tile = 0; tile < tiles; ++tile) count[tile] = static_cast<int32_t>(groups_of(count[tile]));
    }
}

// The same for bins of consecutive entries, and how many sums each has beside those of its rows.
SPG_EXPORT void spg_chunked_groups(const matrix* a, int64_t first, int64_t last, const bins* b, const uint16_t* tile_of,
                                   int64_t tiles, int32_t* groups, int64_t* extras)
{
    for (int64_t bin = first; bin < last; ++bin) {
        int32_t* const count = groups + bin * tiles;
        const int64_t start = b->entry[bin], stop = b->entry[bin + 1];
        std::fill(count, count + tiles, 0);
        for (int64_t entry = start; entry < stop; ++entry) ++count[tile_of[a->col_idx[entry]]];
        for (int64_t tile = 0; tile < tiles; ++tile) count[tile] = static_cast<int32_t>(groups_of(count[tile]));
        extras[bin] = 0;
        for (int64_t row = b->first[bin]; row < b->end[bin]; ++row) {
            extras[bin] += sums_of(length_in(*a, row, start, stop), stop - start, b->share) - 1;
        }
    }
}

// Sets the bit of each entry of rows [first, last), as pattern_dia.py describes it. first is a multiple of 32.
SPG_EXPORT void spg_dia_bits(const matrix* a, int64_t first, int64_t last, const int64_t* place, int64_t width,
                             uint32_t* mask)
{
    for (int64_t row = first; row < last; ++row) {
        const int64_t* const of_row = place + (a->rows - row);
        uint32_t* const words = mask + row / kSlice * width;
        for (int64_t entry = a->row_ptr[row]; entry < a->row_ptr[row + 1]; ++entry)
            words[of_row[a->col_idx[entry]]] |= uint32_t(1) << row % kSlice;
    }
}

#define SPG_OF_BOTH_TYPES(name, call, ...)                      \
    SPG_EXPORT void spg_##name##_float(__VA_ARGS__, float* val) \
        call SPG_EXPORT void spg_##name##_double(__VA_ARGS__, double* val) call

SPG_OF_BOTH_TYPES(
    ell, { ell(*a, first, last, slots, col, val); }, const matrix* a, int64_t first, int64_t last, int64_t slots,
    int32_t* col)

SPG_OF_BOTH_TYPES(
    sell, { sell(*a, first, last, slice_ptr, order, col, val); }, const matrix* a, int64_t first, int64_t last,
    const int64_t* slice_ptr, const int64_t* order, int32_t* col)

SPG_OF_BOTH_TYPES(
    jds, { jds(*a, first, last, perm, slot_start, col, val); }, const matrix* a, int64_t first, int64_t last,
    const int32_t* perm, const int64_t* slot_start, int32_t* col)

SPG_OF_BOTH_TYPES(
    csc, { csc(*a, first, last, next, row_of, val); }, const matrix* a, int64_t first, int64_t last, int64_t* next,
    int32_t* row_of)

SPG_OF_BOTH_TYPES(
    dia, { dia(*a, first, last, group, place, width, val); }, const matrix* a, int64_t first, int64_t last,
    int64_t group, const int64_t* place, int64_t width)

SPG_OF_BOTH_TYPES(
    tail, { tail(*a, first, last, slots, place, row_of, col, val); }, const matrix* a, int64_t first, int64_t last,
    int64_t slots, const int64_t* place, int32_t* row_of, int32_t* col)

SPG_OF_BOTH_TYPES(
    elements, { elements(*a, *turned, first, last, row_of, col, val); }, const matrix* a, const matrix* turned,
    int64_t first, int64_t last, int32_t* row_of, int32_t* col)

SPG_OF_BOTH_TYPES(
    whole_parts, { whole_parts(first, last, row_before, col_before, val); }, int64_t first, int64_t last,
    const int64_t* row_before, const int64_t* col_before)

SPG_OF_BOTH_TYPES(
    binned,
    { binned(*a, first, last, *p, width, tiles, groups, multiply_group, bin_group, scratch, pos, col, val, dest); },
    const matrix* a, int64_t first, int64_t last, const parts* p, int64_t width, int64_t tiles, const int32_t* groups,
    const int64_t* multiply_group, const int64_t* bin_group, int64_t* scratch, uint16_t* pos, uint16_t* col,
    int32_t* dest)

SPG_OF_BOTH_TYPES(
    chunked,
    { chunked(*a, first, last, *b, tiles, *at, slot_of, sorted, spare_keys, scratch, sum, col, val, dest, extra_row); },
    const matrix* a, int64_t first, int64_t last, const bins* b, int64_t tiles, const chunk_places* at,
    int32_t* slot_of, uint64_t* sorted, uint64_t* spare_keys, int64_t* scratch, uint16_t* sum, uint16_t* col,
    int32_t* dest, uint16_t* extra_row)

SPG_OF_BOTH_TYPES(
    bsr, { bsr(*a, first, last, r, c, block_ptr, place, block_col, val); }, const matrix* a, int64_t first,
    int64_t last, int64_t r, int64_t c, const int64_t* block_ptr, int64_t* place, int32_t* block_col)

SPG_EXPORT void spg_sliced_float(const blocks* b, int64_t first, int64_t last, const float* block_val, void* block_col,
                                 float* wide_val, float* rest_val)
{
    sliced(*b, first, last, block_val, block_col, wide_val, rest_val);
}

SPG_EXPORT void spg_sliced_double(const blocks* b, int64_t first, int64_t last, const double* block_val,
                                  void* block_col, double* wide_val, double* rest_val)
{
    sliced(*b, first, last, block_val, block_col, wide_val, rest_val);
}
