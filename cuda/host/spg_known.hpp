// spg_known.hpp: what a thread, a warp, a block or a grid knows to have happened. See spg_races.hpp.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace {
namespace race {

typedef unsigned Time;

// Who: what kind of group it is, and its number.
enum Level : unsigned long long { of_thread = 0, of_warp = 1ull << 32, of_block = 2ull << 32, of_grid = 3ull << 32 };
typedef unsigned long long Who;
constexpr unsigned kRankBits = 10, kMaxBlocks = 1u << (32 - kRankBits);

// Sorted by who.
struct Known {
    std::vector<std::pair<Who, Time>> all;
    void learn(Who who, Time time)
    {
        auto at = all.end();
        if (!all.empty() && all.back().first >= who)
            at = std::lower_bound(all.begin(), all.end(), std::make_pair(who, (Time)0));
        if (at == all.end() || at->first != who)
            all.insert(at, {who, time});
        else if (at->second < time)
            at->second = time;
    }
    void learn(const Known& other)
    {
        if (other.all.empty()) return;
        if (all.empty()) {
            all = other.all;
            return;
        }
        if (other.all.size() < 4) {
            for (const auto& entry : other.all) learn(entry.first, entry.second);
            return;
        }
        static std::vector<std::pair<Who, Time>> merged;
        merged.clear();
        auto a = all.cbegin(), b = other.all.cbegin();
        while (a != all.cend() && b != other.all.cend()) {
            if (a->first < b->first)
                merged.push_back(*a++);
            else if (b->first < a->first)
                merged.push_back(*b++);
            else {
                merged.push_back({a->first, std::max(a->second, b->second)});
                ++a, ++b;
            }
        }
        merged.insert(merged.end(), a, all.cend());
        merged.insert(merged.end(), b, other.all.cend());
        all = merged;
    }
    bool has(Who who, Time time) const
    {
        const auto at = std::lower_bound(all.begin(), all.end(), std::make_pair(who, (Time)0));
        return at != all.end() && at->first == who && at->second >= time;
    }
    bool empty() const { return all.empty(); }
    void clear() { all.clear(); }
};

}  // namespace race
}  // namespace
