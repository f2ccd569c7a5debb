// spg_trace.hpp: from the accesses of single threads to the requests of warps. Part of spg_runtime.cpp, see
// spg_hooks.hpp.
//
// A warp's lanes run one after another here. The k-th time that one lane passes a place in the code since the whole
// warp last met (a barrier, a shuffle, a vote) belongs with the k-th time that the others do: together they are a
// request. Lanes that leave a loop early are missing in the later requests, as on a GPU. Where an inner loop has
// another length in each lane and nothing makes lanes meet, a GPU may make other requests of it than this does.
//
// Of launches of 512 warps and more a part of the blocks is traced, down to an eighth.
//
// Of a request: sectors of 32 bytes that hold what was asked for, and how few could hold it; for shared memory how
// often a bank (32 of 4 bytes) is asked for different words, so that the access takes more than one pass; for atomics
// how many lanes meet at one address. Requests go through a model of caches, which is no more than that: an L1 for each
// multiprocessor, blocks dealt out to them in turn, one L2 behind all, least recently used lines given up first, warps
// one after another where a GPU runs them side by side. L1 is empty at each launch.
#pragma once

#include "spg_hooks.hpp"

namespace {
namespace trace {

struct Totals {
    unsigned long long requests, lanes, bytes;  // bytes: asked for by lanes
    unsigned long long sectors, ideal;  // global memory
    unsigned long long l1_hits, l2_hits, memory_sectors;  // of the sectors: found in L1, in L2, in neither
    unsigned long long passes, ideal_passes;  // shared memory
    unsigned long long addresses, most;  // atomics: distinct addresses of all requests, most lanes at one
};
struct Place {
    const void* code;
    unsigned kernel, what, bytes;
    Totals global, shared;
};
std::vector<Place> places;
std::vector<int> place_table;  // open addressing; -1 is empty
struct Kernel {
    std::string name;
    unsigned long long launches = 0, blocks = 0, warps = 0, threads = 0, traced = 0;  // traced: blocks
};
std::vector<Kernel> kernels;
std::map<std::string, unsigned> kernel_numbers;

// What the lanes of a warp did at one place since they last met.
struct Stream {
    unsigned place;
    std::vector<uintptr_t> lane[kWarp];
};
struct WarpStreams {
    std::vector<int> at;  // by place: which stream, -1 for none
    std::vector<Stream> streams;
    std::vector<unsigned> touched;  // in order
};
std::unordered_map<const Warp*, WarpStreams> of_warps;
unsigned generation;  // of the numbers of places
const Warp* last_warp;
WarpStreams* last_streams;

// ---- caches ---------------------------------------------------------------------------------------------

struct Cache {
    static constexpr unsigned kWays = 4;
    struct Line {
        uintptr_t number = 0;  // of 128 bytes
        unsigned used = 0;
        unsigned sectors = 0;  // 4 bits
    };
    std::vector<Line> lines;
    size_t sets = 1;
    unsigned clock = 0;
    void size(size_t bytes)
    {
        sets = std::max<size_t>(1, bytes / 128 / kWays);
        lines.assign(sets * kWays, Line());
    }
    void clear() { std::fill(lines.begin(), lines.end(), Line()); }
    // Whether the sector is there; if not, and `keep`, it is from now on.
    bool has(uintptr_t sector, bool keep)
    {
        const uintptr_t number = sector / 4;
        const unsigned bit = 1u << sector % 4;
        Line* const set = &lines[(number * 0x9E3779B97F4A7C15ull >> 20) % sets * kWays];
        Line* oldest = set;
        for (unsigned i = 0; i < kWays; ++i) {
            Line& line = set[i];
            if (line.sectors && line.number == number) {
                const bool there = line.sectors & bit;
                if (keep) line.sectors |= bit;
                if (there || keep) line.used = ++clock;
                return there;
            }
            if (line.used < oldest->used) oldest = &line;
        }
        if (keep) *oldest = {number, ++clock, bit};
        return false;
    }
};
std::vector<Cache> l1;
Cache l2;
size_t l2_size;
unsigned l2_share = 1;

// ---- requests -------------------------------------------------------------------------------------------

struct Lane {
    uintptr_t address;
    unsigned lane;
};

// Counts how often each of up to 64 numbers comes.
struct Distinct {
    static constexpr unsigned kSlots = 128;
    uintptr_t number[kSlots];
    unsigned turn[kSlots] = {}, times[kSlots], now = 0;
    void clear() { ++now; }
    unsigned add(uintptr_t n)
    {
        unsigned at = (unsigned)(n * 0x9E3779B97F4A7C15ull >> 57);
        while (turn[at] == now && number[at] != n) at = (at + 1) % kSlots;
        if (turn[at] != now) turn[at] = now, number[at] = n, times[at] = 0;
        return ++times[at];
    }
};

void count_global(Totals& t, const Lane* lanes, unsigned count, unsigned bytes, unsigned what, unsigned block)
{
    static uintptr_t sectors[kWarp * 2];
    static Distinct addresses, seen_sectors;
    unsigned some = 0, distinct = 0, most = 0;
    addresses.clear();
    seen_sectors.clear();
    uintptr_t last = ~(uintptr_t)0;
    for (unsigned i = 0; i < count; ++i) {
        const uintptr_t a = lanes[i].address;
        const unsigned times = addresses.add(a);
        most = std::max(most, times);
        if (times > 1) continue;
        ++distinct;
        for (uintptr_t s = a / 32; s <= (a + bytes - 1) / 32; ++s) {
            if (s == last) continue;
            last = s;
            if (seen_sectors.add(s) == 1) sectors[some++] = s;
        }
    }
    ++t.requests;
    t.lanes += count;
    t.bytes += (unsigned long long)count * bytes;
    t.sectors += some;
    t.ideal += (distinct * bytes + 31) / 32;
    t.addresses += distinct;
    t.most = std::max<unsigned long long>(t.most, most);
    const bool write = what & SPG_WRITE, in_l1 = !write && !(what & (SPG_L2 | SPG_STRONG | SPG_ACQUIRE));
    for (unsigned i = 0; i < some; ++i) {
        if (in_l1 && l1[block % l1.size()].has(sectors[i], true))
            ++t.l1_hits;
        else if (l2.has(sectors[i], true))
            ++t.l2_hits;
        else
            ++t.memory_sectors;
    }
}

void count_shared(Totals& t, const Lane* lanes, unsigned count, unsigned bytes, uintptr_t begin)
{
    // 4 bytes a lane: all lanes together; 8: half of them; 16: a quarter.
    const unsigned together = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
    unsigned passes = 0, ideal = 0, most = 0;
    std::vector<uintptr_t> words[32];
    for (unsigned group = 0; group < 32; group += together) {
        unsigned deepest = 0;
        for (auto& bank : words) bank.clear();
        for (unsigned i = 0; i < count; ++i) {
            if (lanes[i].lane < group || lanes[i].lane >= group + together) continue;
            for (uintptr_t w = (lanes[i].address - begin) / 4; w <= (lanes[i].address + bytes - 1 - begin) / 4; ++w) {
                auto& bank = words[w % 32];
                if (std::find(bank.begin(), bank.end(), w) == bank.end()) bank.push_back(w);
                deepest = std::max(deepest, (unsigned)bank.size());
            }
        }
        passes += deepest;
        ideal += deepest > 0;
    }
    unsigned distinct = 0;
    for (unsigned i = 0; i < count; ++i) {
        unsigned same = 0, before = 0;
        for (unsigned j = 0; j < count; ++j)
            if (lanes[j].address == lanes[i].address) ++same, before += j < i;
        distinct += before == 0;
        most = std::max(most, same);
    }
    ++t.requests;
    t.lanes += count;
    t.bytes += (unsigned long long)count * bytes;
    t.passes += passes;
    t.ideal_passes += ideal;
    t.addresses += distinct;
    t.most = std::max<unsigned long long>(t.most, most);
}

const hooks::Range* last_range;

void flush(const Warp& w, unsigned block)
{
    const auto found = of_warps.find(&w);
    if (found == of_warps.end() || found->second.touched.empty()) return;
    WarpStreams& mine = found->second;
    bool more = true;
    for (size_t k = 0; more; ++k) {
        more = false;
        for (unsigned number : mine.touched) {
            Stream& s = mine.streams[number];
            Lane lanes[kWarp];
            unsigned count = 0;
            for (unsigned i = 0; i < kWarp; ++i)
                if (k < s.lane[i].size()) lanes[count++] = {s.lane[i][k], i};
            if (!count) continue;
            more = true;
            const uintptr_t a = lanes[0].address;
            if (!last_range || a - last_range->begin >= last_range->bytes) last_range = hooks::range_of(a);
            if (!last_range) continue;  // a constant, or another lane's stack
            Place& p = places[s.place];
            // No instruction moves more than 16 bytes a lane.
            for (unsigned from = 0; from < p.bytes; from += 16) {
                const unsigned bytes = std::min(16u, p.bytes - from);
                for (unsigned i = 0; i < count && from; ++i) lanes[i].address += 16;
                if (last_range->shared)
                    count_shared(p.shared, lanes, count, bytes, last_range->begin);
                else
                    count_global(p.global, lanes, count, bytes, p.what, block);
            }
        }
    }
    for (unsigned number : mine.touched) {
        mine.at[mine.streams[number].place] = -1;
        for (auto& lane : mine.streams[number].lane) lane.clear();
    }
    mine.touched.clear();
}

unsigned place_number(const void* code, unsigned kernel, unsigned what, unsigned bytes)
{
    if (place_table.empty() || places.size() * 2 > place_table.size()) {
        place_table.assign(std::max<size_t>(1024, place_table.size() * 4), -1);
        const std::vector<Place> old = std::move(places);
        places.clear();
        ++generation;
        for (const Place& p : old) places[place_number(p.code, p.kernel, p.what, p.bytes)] = p;
    }
    const size_t mask = place_table.size() - 1;
    for (size_t at = ((uintptr_t)code + kernel * 977u + bytes * 131u + what) * 0x9E3779B97F4A7C15ull >> 40 & mask;;
         at = (at + 1) & mask) {
        const int number = place_table[at];
        if (number < 0) {
            place_table[at] = (int)places.size();
            places.push_back({code, kernel, what, bytes, {}, {}});
            return (unsigned)places.size() - 1;
        }
        const Place& p = places[number];
        if (p.code == code && p.kernel == kernel && p.bytes == bytes && p.what == what) return (unsigned)number;
    }
}

void access(Thread* t, uintptr_t address, unsigned bytes, unsigned what, const void* code)
{
    static struct {
        const void* code = nullptr;
        unsigned kernel, what, bytes, place, generation;
    } recent[256];
    auto& seen = recent[((uintptr_t)code >> 2) % 256];
    const unsigned kernel = t->block->grid->number;
    if (seen.code != code || seen.kernel != kernel || seen.what != what || seen.bytes != bytes ||
        seen.generation != generation)
        seen = {code, kernel, what, bytes, place_number(code, kernel, what, bytes), generation};
    const unsigned place = seen.place;
    const Warp* w = &t->of();
    if (w != last_warp) {
        last_warp = w;
        last_streams = &of_warps[w];
    }
    WarpStreams& mine = *last_streams;
    if (mine.at.size() <= place) mine.at.resize(places.size() + 16, -1);
    int number = mine.at[place];
    if (number < 0) {
        number = (int)mine.touched.size();
        if (number == (int)mine.streams.size()) mine.streams.emplace_back();
        mine.at[place] = number;
        mine.streams[number].place = place;
        mine.touched.push_back((unsigned)number);
    }
    mine.streams[number].lane[t->view.rank % kWarp].push_back(address);
}

// ---- events of the scheduler ----------------------------------------------------------------------------

void begin_grid(Grid* g)
{
    const auto known = kernel_numbers.emplace(g->name, (unsigned)kernels.size());
    if (known.second) {
        kernels.emplace_back();
        kernels.back().name = g->name;
    }
    g->number = known.first->second;
    // Of a large launch the blocks of some multiprocessors are traced, and see as much less of the L2.
    const unsigned long long warps = g->blocks * ((g->block.x * g->block.y * g->block.z + kWarp - 1) / kWarp);
    g->every = (unsigned)std::min<unsigned long long>(8, std::max<unsigned long long>(1, warps / 256));
    if (g->every != l2_share) {
        l2_share = g->every;
        l2.size(l2_size / l2_share);
    }
    ++kernels[g->number].launches;
}

void begin_block(Block* b)
{
    Kernel& k = kernels[b->grid->number];
    b->number = (unsigned)k.blocks++;
    b->traced = b->number % l1.size() % b->grid->every == 0;
    k.traced += b->traced;
    k.threads += b->count;
    k.warps += b->warps.size();
}

void flush_block(const Block* b)
{
    for (const Warp& w : b->warps) flush(w, b->number);
}

void reset(unsigned multiprocessors, size_t l1_bytes, size_t l2_bytes);

void begin_launch()
{
    if (l1.empty()) reset(1, 128 << 10, 32 << 20);
    for (Cache& c : l1) c.clear();
    of_warps.clear();
    last_warp = nullptr;
    last_range = nullptr;
}

void reset(unsigned multiprocessors, size_t l1_bytes, size_t l2_bytes)
{
    places.clear();
    place_table.clear();
    ++generation;
    kernels.clear();
    kernel_numbers.clear();
    l1.assign(std::max(1u, multiprocessors), Cache());
    for (Cache& c : l1) c.size(l1_bytes);
    l2_size = l2_bytes, l2_share = 1;
    l2.size(l2_bytes);
}

}  // namespace trace
}  // namespace
