// spg_notify.hpp: what the scheduler tells the race detector or the trace, whichever is on. Part of spg_runtime.cpp.
#pragma once

#include "spg_races.hpp"
#include "spg_trace.hpp"

namespace {
namespace notify {

inline bool races() { return hooks::mode == hooks::races; }

void memory(void* begin, size_t bytes, bool shared, const char* name, size_t element)
{
    if (!bytes) return;
    hooks::ranges[(uintptr_t)begin] = {(uintptr_t)begin, bytes, shared, name, element};
    race::watch((uintptr_t)begin, bytes, true);
}
void reused(void* begin, size_t bytes)
{
    if (races()) race::forget((uintptr_t)begin, bytes);
}
void freed(void* begin)
{
    const auto at = hooks::ranges.find((uintptr_t)begin);
    if (at == hooks::ranges.end()) return;
    race::watch(at->second.begin, at->second.bytes, false);
    hooks::ranges.erase(at);
}

void begin_launch()
{
    spg_quiet = 0;
    hooks::mode = device->traced ? hooks::trace : hooks::races;
    if (races())
        race::begin_launch();
    else
        trace::begin_launch();
}
void begin_grid(Grid* g)
{
    if (races())
        race::begin_grid(g);
    else
        trace::begin_grid(g);
}
bool begin_block(Block* b)
{
    if (races()) return race::begin_block(b);
    trace::begin_block(b);
    return true;
}
void begin_thread(Thread* t)
{
    if (races()) race::begin_thread(t);
}
void end_thread(const Thread* t)
{
    if (!races() && t->of().alive == t->bit()) trace::flush(t->of(), t->block->number);  // the last of its warp
}
void block_barrier(Block* b)
{
    if (races())
        race::block_barrier(b);
    else
        trace::flush_block(b);
}
void grid_barrier(Grid* g)
{
    if (races()) {
        race::grid_barrier(g);
        return;
    }
    for (const Block* b : live)
        if (b->grid == g) trace::flush_block(b);
}
void meeting(Warp& w, const Meeting& m)
{
    if (!races()) {
        if (m.here == w.alive) trace::flush(w, m.lanes[__builtin_ctz(m.here)]->block->number);
    } else if (m.op == SPG_WARP_SYNC) {
        race::warp_meets(w, m.lanes, m.here);
    }
}
void team_meets(const std::vector<Thread*>& team)
{
    if (races()) race::team_meets(team);
}
void child(Grid* g, const Thread* t)
{
    if (races()) race::child(g, t);
}
void into_stream(Grid* g)
{
    if (races()) race::into_stream(g);
}
void follow(const Grid* g, Grid* next)
{
    if (races()) race::follow(g, next);
}
void complete(const Grid* g)
{
    if (races()) race::complete(g);
}
void end_launch()
{
    if (!races() || race::findings.empty()) return;
    const race::Finding& f = race::findings[0];
    set_failure(kLaunchFailure, {nullptr, 0}, "%s: data race", f.kernel.c_str());  // findings say more
}

}  // namespace notify
}  // namespace
