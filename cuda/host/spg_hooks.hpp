// spg_hooks.hpp: what the compiler's hooks and the shim tell of every access. Part of spg_runtime.cpp where kernels are
// compiled with SPG_HOOKS: g++ -fsanitize=thread calls a function before each load and store; these are spgraph's, no
// sanitizer library is linked. Events go to the race detector (spg_races.hpp) or to the trace (spg_trace.hpp).
//
// Here are names for memory: which array an address belongs to, and at which index.
#pragma once

#include "spg_fibers.hpp"

#include <algorithm>

namespace {
namespace hooks {

enum Mode { races = 1, trace = 2 };
int mode = races;

// A kernel's parameters, as the module describes them.
struct Kernel {
    std::string name;
    std::vector<std::string> names;
    const unsigned char* parameters;  // kind, size, kind and size of the target, of each
    unsigned long long read_only;  // const __restrict__: nvcc may read it through the read-only cache
};
std::unordered_map<const void*, Kernel> kernels;

// Memory that is watched: device buffers, the device's heap, shared arrays.
struct Range {
    uintptr_t begin;
    size_t bytes;
    bool shared;
    std::string name;  // of a shared array
    size_t element = 1;  // bytes
};
std::map<uintptr_t, Range> ranges;  // by begin

// Pages of 4,096 bytes with watched memory; a page's content belongs to who looks.
constexpr uintptr_t kPageBits = 12, kPageWords = 1024;

Range* range_of(uintptr_t address)
{
    auto at = ranges.upper_bound(address);
    if (at == ranges.begin()) return nullptr;
    Range& r = std::prev(at)->second;
    return address < r.begin + r.bytes ? &r : nullptr;
}

struct Place {
    std::string array;  // "" if it has no name
    long long index = 0;  // of the element, or byte
    bool shared = false;
};

// By the parameter of the grid that points closest below it into the same allocation.
Place name_of(uintptr_t address, const Grid* g)
{
    Place place;
    const Range* r = range_of(address);
    if (!r) return place;
    place.shared = r->shared;
    if (r->shared) {
        place.array = r->name;
        place.index = (long long)((address - r->begin) / r->element);
        return place;
    }
    place.index = (long long)(address - r->begin);
    const auto known = kernels.find(g->kernel);
    if (known == kernels.end()) return place;
    const Kernel& k = known->second;
    uintptr_t best = 0;
    for (size_t i = 0; i < k.names.size(); ++i) {
        const unsigned char* p = k.parameters + 4 * i;
        if (p[0] != 'p') continue;
        const uintptr_t start = *(const uintptr_t*)g->arguments[i];
        if (start < r->begin || start > address || start < best) continue;
        best = start;
        place.array = k.names[i];
        place.index = (long long)((address - start) / (p[3] ? p[3] : 1));
    }
    return place;
}

// Two pointers of this grid into the allocation of `address`, of which one is const __restrict__ and the other is not:
// nvcc has been promised that nothing which the first one reads is ever written through the other.
bool promised_apart(const Grid* g, uintptr_t address)
{
    const auto known = kernels.find(g->kernel);
    const Range* r = range_of(address);
    if (known == kernels.end() || !r || r->shared) return false;
    const Kernel& k = known->second;
    bool reads = false, writes = false;
    for (size_t i = 0; i < k.names.size(); ++i) {
        if (k.parameters[4 * i] != 'p') continue;
        const uintptr_t start = *(const uintptr_t*)g->arguments[i];
        if (start < r->begin || start >= r->begin + r->bytes) continue;
        (k.read_only >> i & 1 ? reads : writes) = true;
    }
    return reads && writes;
}

bool has_aliases(const Grid* g)
{
    const auto known = kernels.find(g->kernel);
    if (known == kernels.end()) return false;
    for (size_t i = 0; i < known->second.names.size(); ++i)
        if (known->second.read_only >> i & 1 && promised_apart(g, *(const uintptr_t*)g->arguments[i])) return true;
    return false;
}

std::string place_of(const void* code)  // "library+0xoffset" of the call before `code`, for addr2line
{
    Dl_info library;
    if (!code || !dladdr(code, &library)) return "?";
    char text[512];
    snprintf(text, sizeof text, "%s+0x%zx", library.dli_fname,
             (size_t)((const char*)code - (const char*)library.dli_fbase) - 1);
    return text;
}

inline bool own_stack(uintptr_t address)
{
    return address - (uintptr_t)current->stack < current->bytes;  // wraps around below
}

}  // namespace hooks
}  // namespace
