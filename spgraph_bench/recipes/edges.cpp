// What recipes do with every edge that they draw, and with every value: see compiled.py.
//
// Each function does a range of edges, buckets or rows, so that several threads share the work; no two ranges write the
// same element. Arrays are numpy's, by address. What comes out does not depend on the ranges.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../csr.hpp"

namespace {

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;

constexpr int64_t kGroups = 4;
constexpr int64_t kBlock = 1024;
constexpr int kDigit = 11;  // 2,048 counters fit in L1, beside the ends of as many lines in L2

// PCG64 as numpy has it (O'Neill 2014, XSL-RR): the state moves on, then gives a word.
class word_stream {
public:
    explicit word_stream(const uint64_t* at) : state_(joined(at)), step_(joined(at + 2)) {}

    uint64_t next()
    {
        state_ = state_ * kFactor + step_;
        const uint64_t mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
        const unsigned turn = static_cast<unsigned>(state_ >> 122);
        return mixed >> turn | mixed << (-turn & 63);
    }

private:
    using wide = unsigned __int128;
    static constexpr wide kFactor = static_cast<wide>(0x2360ED051FC65DA4) << 64 | 0x4385DF649FCCF645;

    static wide joined(const uint64_t* words) { return static_cast<wide>(words[0]) << 64 | words[1]; }

    wide state_, step_;
};

// Uniform in [0, 1): exact, as draw.unit is.
double unit(uint64_t word) { return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53; }

// The output function of SplitMix64.
uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// Sorts keys[0, count) with `spare` of the same size; returns which of the two holds them then. `low` bits count, then
// those from bit 32 to 32 + high: by least significant digits first.
uint64_t* sorted(uint64_t* keys, uint64_t* spare, int64_t count, int low, int high)
{
    constexpr size_t kValues = size_t(1) << kDigit;
    constexpr int kMost = (64 + kDigit - 1) / kDigit;
    const uint64_t low_mask = (uint64_t(1) << low) - 1, high_mask = (uint64_t(1) << high) - 1;
    const auto digit = [=](uint64_t key, int pass) {
        return ((key >> 32 & high_mask) << low | (key & low_mask)) >> (pass * kDigit) & (kValues - 1);
    };
    const int passes = (low + high + kDigit - 1) / kDigit;
    uint32_t places[kMost][kValues];
    for (int pass = 0; pass < passes; ++pass) std::memset(places[pass], 0, sizeof places[pass]);
    for (int64_t k = 0; k < count; ++k)
        for (int pass = 0; pass < passes; ++pass) ++places[pass][digit(keys[k], pass)];
    for (int pass = 0; pass < passes; ++pass) {
        uint32_t before = 0;
        for (uint32_t& place : places[pass]) {
            const uint32_t here = place;
            place = before;
            before += here;
        }
        for (int64_t k = 0; k < count; ++k) spare[places[pass][digit(keys[k], pass)]++] = keys[k];
        std::swap(keys, spare);
    }
    return keys;
}

}  // namespace

// A column of Walker's alias table: below `threshold` it is drawn itself, else its alias.
struct alias_column {
    uint64_t threshold, alias;
};

struct rmat_tables {
    int64_t groups;
    int64_t levels[kGroups], bits[kGroups];
    const alias_column* columns[kGroups];
};

// Draws `count` edges and writes source << 32 | target of those that are no loops, both ways where `both`; adds 1 to
// tally[source >> shift] for each. `states` has the stream of each group of levels, four words each.
SPG_EXPORT void spg_rmat_keys(const rmat_tables* tables, const uint64_t* states, int64_t count, const uint32_t* renamed,
                              int64_t both, int64_t shift, uint64_t* keys, int64_t* tally)
{
    std::vector<word_stream> streams;
    for (int64_t g = 0; g < tables->groups; ++g) streams.emplace_back(states + 4 * g);
    uint32_t source[kBlock], target[kBlock];
    for (int64_t first = 0; first < count; first += kBlock) {
        const int64_t edges = std::min(kBlock, count - first);
        std::memset(source, 0, sizeof source);
        std::memset(target, 0, sizeof target);
        for (int64_t g = 0; g < tables->groups; ++g) {
            const int64_t levels = tables->levels[g], bits = tables->bits[g];
            const alias_column* columns = tables->columns[g];
            word_stream stream = streams[static_cast<size_t>(g)];
            for (int64_t e = 0; e < edges; ++e) {
                const uint64_t word = stream.next(), own = word & ((uint64_t(1) << bits) - 1);
                const alias_column column = columns[own];
                // Half of all draws take the alias: without a branch, which would be guessed wrong as often.
                const uint64_t drawn = own ^ ((own ^ column.alias) & -uint64_t(word >> bits >= column.threshold));
                source[e] = static_cast<uint32_t>(source[e] << levels | drawn >> levels);
                target[e] = static_cast<uint32_t>(target[e] << levels | (drawn & ((uint64_t(1) << levels) - 1)));
            }
            streams[static_cast<size_t>(g)] = stream;
        }
        for (int64_t e = 0; e < edges; ++e) source[e] = renamed[source[e]];
        for (int64_t e = 0; e < edges; ++e) target[e] = renamed[target[e]];
        for (int64_t e = 0; e < edges; ++e) {
            if (source[e] == target[e]) continue;
            *keys++ = uint64_t(source[e]) << 32 | target[e];
            ++tally[source[e] >> shift];
            if (!both) continue;
            *keys++ = uint64_t(target[e]) << 32 | source[e];
            ++tally[target[e] >> shift];
        }
    }
}

// Puts keys[0, count) into their buckets: those of bucket b from out[place[b]] on; `place` moves on. (Filling a cache
// line of each bucket before it is written took as long.)
SPG_EXPORT void spg_to_buckets(const uint64_t* keys, int64_t count, int64_t shift, int64_t* place, uint64_t* out)
{
    for (int64_t k = 0; k < count; ++k) out[place[keys[k] >> (32 + shift)]++] = keys[k];
}

// Of each bucket in [first, last), which has keys[start[b] .. start[b + 1]): the targets of its edges, sorted by source
// and target and once each, as int32 from the place of keys[start[b]] on, and how many; and how many each source has.
SPG_EXPORT void spg_join_edges(int64_t first, int64_t last, const int64_t* start, int64_t shift, int64_t bits,
                               uint64_t* keys, uint64_t* spare, int64_t* lengths, int64_t* kept)
{
    for (int64_t b = first; b < last; ++b) {
        const int64_t count = start[b + 1] - start[b];
        uint64_t* const mine = keys + start[b];
        const uint64_t* in_order =
            sorted(mine, spare + start[b], count, static_cast<int>(bits), static_cast<int>(shift));
        char* const out = reinterpret_cast<char*>(mine);  // what is written has been read: 4 bytes for 8
        int64_t written = 0;
        uint64_t before = ~uint64_t(0);
        for (int64_t k = 0; k < count; ++k) {
            const uint64_t key = in_order[k];
            if (key == before) continue;
            before = key;
            const int32_t target = static_cast<int32_t>(key & 0xFFFFFFFF);
            std::memcpy(out + written++ * int64_t(sizeof target), &target, sizeof target);
            ++lengths[key >> 32];
        }
        kept[b] = written;
    }
}

// Targets of each bucket in [first, last) to their places in `col`, those of b from before[b] on.
SPG_EXPORT void spg_collect_targets(int64_t first, int64_t last, const int64_t* start, const int64_t* before,
                                    const uint64_t* keys, int32_t* col)
{
    for (int64_t b = first; b < last; ++b)
        std::memcpy(col + before[b], keys + start[b], static_cast<size_t>(before[b + 1] - before[b]) * sizeof *col);
}

// For each row in [first, last) lengths[row] columns drawn uniformly from `cols`: sorted and once each from `out` on,
// row after row; and how many each row keeps.
SPG_EXPORT void spg_draw_columns(int64_t first, int64_t last, const int64_t* lengths, const uint64_t* state,
                                 int64_t cols, int32_t* out, int64_t* kept)
{
    word_stream stream(state);
    for (int64_t row = first; row < last; ++row) {
        int32_t* const end = out + lengths[row];
        for (int32_t* at = out; at != end; ++at)
            *at = static_cast<int32_t>(unit(stream.next()) * static_cast<double>(cols));
        std::sort(out, end);
        int32_t* const unique = std::unique(out, end);
        kept[row] = unique - out;
        out = unique;
    }
}

// The value of each entry in rows [first, last), by its place alone: values.entry_values says how.
SPG_EXPORT void spg_entry_values(const matrix* a, int64_t first, int64_t last, const uint64_t* start, int64_t symmetric,
                                 double* out)
{
    for (int64_t row = first; row < last; ++row) {
        const uint64_t i = static_cast<uint64_t>(row);
        for (int64_t e = a->row_ptr[row]; e < a->row_ptr[row + 1]; ++e) {
            const uint64_t j = static_cast<uint64_t>(a->col_idx[e]);
            const bool turned = symmetric && j < i;
            const uint64_t number = (turned ? j : i) * static_cast<uint64_t>(a->cols) + (turned ? i : j);
            out[e] = unit(mixed(number * 0x9E3779B97F4A7C15 + *start));
        }
    }
}
