// spg_hook_calls.hpp: the functions that instrumented kernels and the host call. Part of spg_runtime.cpp.
#pragma once

#include "spg_notify.hpp"

__attribute__((visibility("default"))) int spg_quiet = 0;

namespace {

inline void report_access(const volatile void* address, unsigned bytes, unsigned what, const void* code)
{
    if (!spg_self || (hooks::mode == hooks::trace && !self()->block->traced) || current == &scheduler ||
        hooks::own_stack((uintptr_t)address))
        return;
    if (notify::races())
        race::access(self(), (uintptr_t)address, bytes, what, code);
    else
        trace::access(self(), (uintptr_t)address, bytes, what, code);
}
inline void hook(const volatile void* address, unsigned bytes, unsigned what, const void* code)
{
    if (spg_quiet) return;
    if (what & SPG_STRONG && what & SPG_READ && seed) spg_switch();
    report_access(address, bytes, what, code);
}

}  // namespace

EXPORT void spg_access(const volatile void* address, unsigned bytes, unsigned what)
{
    if (!spg_quiet) report_access(address, bytes, what, __builtin_return_address(0));
}
EXPORT void spg_fence(int block_only)
{
    if (spg_self && notify::races()) race::fence(self(), block_only);
}
EXPORT void spg_describe(const char* name, const void* kernel, const unsigned char* parameters, int count,
                         const char* names, unsigned long long read_only)
{
    hooks::Kernel k{name, {}, parameters, read_only};
    for (const char *from = names, *end; (int)k.names.size() < count && (end = strchr(from, ',')); from = end + 1)
        k.names.emplace_back(from, end);
    pthread_mutex_lock(&launch_lock);
    hooks::kernels[kernel] = k;
    pthread_mutex_unlock(&launch_lock);
}
EXPORT void* spg_named_shared(const void* declaration, size_t bytes, size_t align, const char* name, size_t element)
{
    void* memory = spg_shared(declaration, bytes, align);
    const auto at = hooks::ranges.find((uintptr_t)memory);
    if (at != hooks::ranges.end()) at->second.name = name, at->second.element = element;
    return memory;
}
EXPORT void* spg_named_dynamic_shared(const char* name, size_t element)
{
    void* memory = spg_dynamic_shared();
    const auto at = hooks::ranges.find((uintptr_t)memory);
    if (at != hooks::ranges.end()) at->second.name = name, at->second.element = element;
    return memory;
}

// g++ -fsanitize=thread --param=tsan-distinguish-volatile=1. A volatile access is relaxed.
#define SPG_HOOK(name, bytes, what) \
    EXPORT void __tsan_##name(void* p) { hook(p, bytes, what, __builtin_return_address(0)); }
#define SPG_HOOKS_OF(bytes)                                                \
    SPG_HOOK(read##bytes, bytes, SPG_READ)                                 \
    SPG_HOOK(write##bytes, bytes, SPG_WRITE)                               \
    SPG_HOOK(unaligned_read##bytes, bytes, SPG_READ)                       \
    SPG_HOOK(unaligned_write##bytes, bytes, SPG_WRITE)                     \
    SPG_HOOK(volatile_read##bytes, bytes, SPG_READ | SPG_STRONG)           \
    SPG_HOOK(volatile_write##bytes, bytes, SPG_WRITE | SPG_STRONG)         \
    SPG_HOOK(unaligned_volatile_read##bytes, bytes, SPG_READ | SPG_STRONG) \
    SPG_HOOK(unaligned_volatile_write##bytes, bytes, SPG_WRITE | SPG_STRONG)
SPG_HOOKS_OF(1)
SPG_HOOKS_OF(2)
SPG_HOOKS_OF(4)
SPG_HOOKS_OF(8)
SPG_HOOKS_OF(16)
EXPORT void __tsan_read_range(void* p, unsigned long bytes)
{
    hook(p, (unsigned)bytes, SPG_READ, __builtin_return_address(0));
}
EXPORT void __tsan_write_range(void* p, unsigned long bytes)
{
    hook(p, (unsigned)bytes, SPG_WRITE, __builtin_return_address(0));
}
EXPORT void __tsan_vptr_update(void**, void*) {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_init() {}

// What the last launch found, as lines of fields with tabs between: rule, kernel, array, index, bytes, shared; then of
// the first access and of the second one what it was, where ("library+0xoffset"), and by whom. The first line is a
// count: of all, with those at places that were reported already.
EXPORT const char* spg_findings()
{
    static std::string text;
    text = std::to_string(race::found) + "\n";
    for (const race::Finding& f : race::findings)
        text += f.rule + "\t" + f.kernel + "\t" + f.array + "\t" + std::to_string(f.index) + "\t" +
                std::to_string(f.bytes) + "\t" + std::to_string((int)f.shared) + "\t" + f.first + "\t" + f.first_place +
                "\t" + f.first_thread + "\t" + f.second + "\t" + f.second_place + "\t" + f.second_thread + "\n";
    return text.c_str();
}

EXPORT void spg_trace_reset(unsigned multiprocessors, size_t l1_bytes, size_t l2_bytes)
{
    pthread_mutex_lock(&launch_lock);
    trace::reset(multiprocessors, l1_bytes, l2_bytes);
    pthread_mutex_unlock(&launch_lock);
}

// All since the last reset. A line with tabs for each kernel: "kernel", name, launches, blocks, warps, threads, blocks
// that were traced; then for each place in it "global" or "shared", number of the kernel, "library+0xoffset", what
// (spg_access_word), bytes of an access, and the totals in the order of trace::Totals.
EXPORT const char* spg_trace_text()
{
    static std::string text;
    text.clear();
    const auto number = [](unsigned long long n) { text += '\t' + std::to_string(n); };
    for (const trace::Kernel& k : trace::kernels) {
        text += "kernel\t" + k.name;
        for (unsigned long long n : {k.launches, k.blocks, k.warps, k.threads, k.traced}) number(n);
        text += '\n';
    }
    for (const trace::Place& p : trace::places)
        for (const trace::Totals* t : {&p.global, &p.shared}) {
            if (!t->requests) continue;
            text += t == &p.global ? "global" : "shared";
            number(p.kernel);
            text += '\t' + hooks::place_of(p.code);
            for (unsigned long long n : {(unsigned long long)p.what, (unsigned long long)p.bytes, t->requests, t->lanes,
                                         t->bytes, t->sectors, t->ideal, t->l1_hits, t->l2_hits, t->memory_sectors,
                                         t->passes, t->ideal_passes, t->addresses, t->most})
                number(n);
            text += '\n';
        }
    return text.c_str();
}
