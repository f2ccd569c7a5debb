// spg_runtime.cpp: runs CUDA-style grids on one CPU thread, exactly and repeatably.
//
// Every CUDA thread that has to wait gets a fiber (its own stack); one that never waits runs to its end on
// whatever fiber is at hand, and the next thread starts on that same fiber. So a kernel without barriers is a
// plain loop over threads, and nothing has to know in advance which kind a kernel is.
//
// The scheduler runs, in this order: threads that were released; threads of started blocks that have not begun;
// lanes waiting in __activemask (who is here counts as converged); a new block of any grid that may start;
// threads that spin. If none is left and threads wait, they wait forever: that is reported, naming the barrier.
// A seed other than 0 shuffles blocks, threads, released threads and child grids; 0 is the natural order. An even one
// lets warps fall behind others by far (see choose_ready).
//
// Where it is stricter than a GPU:
//   - a thread that returned before a block barrier that others reach is an error. GPUs since Volta do not wait
//     for it, older ones hung, and it is nearly always a mistake (spg_device.strict = 0 allows it)
//   - a block's threads meeting at different barriers in the source is an error (likewise)
//   - so are lanes in a warp collective that name different operations, or a mask without the caller
//   - reading from a lane that takes no part gives junk; shared and device memory start as junk
// Threads switch only where they wait or yield: at atomics, fences, acquires, and, with a seed, relaxed loads. A spin
// that contains none of these never ends, as nothing interrupts the spinner. Data races are found where kernels are
// compiled with SPG_HOOKS, see spg_races.hpp.
#include "spg_scheduler.hpp"

// extern "C" by their declarations
__attribute__((visibility("default"))) spg_thread_view* spg_self = nullptr;
__attribute__((visibility("default"))) unsigned spg_relaxed_loads = 0, spg_switch_mask = 0xffff;

// ---- called by kernels ----------------------------------------------------------------------------------

EXPORT void* spg_shared(const void* declaration, size_t bytes, size_t align)
{
    SharedSet* set = self()->block->shared;
    for (SharedArray& a : set->arrays)
        if (a.declaration == declaration) return a.memory;
    if ((set->fixed_bytes += bytes) > kStaticShared) {
        set_failure(kLaunchFailure, {nullptr, 0}, "%s: %zu bytes of static shared memory, more than %zu",
                    self()->block->grid->name.c_str(), set->fixed_bytes, kStaticShared);
        abandon();
    }
    if (const size_t dynamic = self()->block->grid->shared; set->fixed_bytes + dynamic > limits.shared) {
        set_failure(kInvalidConfiguration, {nullptr, 0},
                    "%s: %zu bytes of static and %zu of dynamic shared memory a block, more than %llu",
                    self()->block->grid->name.c_str(), set->fixed_bytes, dynamic, limits.shared);
        abandon();
    }
    char* memory;
    if (posix_memalign((void**)&memory, align < 16 ? 16 : align, bytes)) abort();
    fill_with_junk(memory, bytes);
    set->arrays.push_back({declaration, memory, bytes});
    SPG_TELL(notify::memory(memory, bytes, true, "shared memory", 1);)
    return memory;
}

EXPORT void* spg_dynamic_shared()
{
    Thread* t = self();
    if (!t->block->shared->dynamic) {
        static char nothing;  // zero bytes were asked for; the address is valid, an access is not
        return &nothing + 1;
    }
    return t->block->shared->dynamic;
}

EXPORT size_t spg_dynamic_shared_bytes() { return self()->block->grid->shared; }

EXPORT unsigned spg_barrier(const char* what, int predicate, unsigned* arrived, spg_site site)
{
    Thread* t = self();
    Block* b = t->block;
    t->spins = 0;
    if (b->barrier && device->strict && (strcmp(b->barrier->what, what) || !same(b->barrier->site, site))) {
        set_failure(kLaunchFailure, site, "%s: threads of %s meet at different barriers: %s()%s and %s()%s",
                    b->grid->name.c_str(), block_name(b).c_str(), b->barrier->what, at(b->barrier->site).c_str(), what,
                    at(site).c_str());
        abandon();
    }
    t->what = what;
    t->site = site;
    t->wait = Wait::barrier;
    t->next = b->barrier;
    b->barrier = t;
    ++b->waiting;
    b->predicates += predicate != 0;
    check_barrier(b);
    dispatch();
    t = self();
    if (arrived) *arrived = t->arrived;
    return t->result;
}

EXPORT void spg_grid_barrier(spg_site site)
{
    Thread* t = self();
    Grid* g = t->block->grid;
    if (!g->cooperative) {
        set_failure(kLaunchFailure, site,
                    "%s: grid.sync() in a launch that is not cooperative (bind(..., cooperative=True))",
                    g->name.c_str());
        abandon();
    }
    t->what = "grid.sync()";
    t->site = site;
    t->wait = Wait::grid;
    t->next = g->barrier;
    g->barrier = t;
    ++g->waiting;
    check_grid_barrier(g);
    dispatch();
}

EXPORT void spg_warp(spg_warp_op op, const char* what, unsigned mask, spg_lane* mine, spg_site site)
{
    Thread* t = self();
    Block* b = t->block;
    Warp& w = b->warps[t->warp()];
    t->spins = 0;
    if (!(mask & t->bit())) {
        set_failure(kLaunchFailure, site, "%s: %s by %s with mask 0x%08x, which lacks its own lane %u",
                    b->grid->name.c_str(), what, thread_name(t).c_str(), mask, t->view.rank % kWarp);
        abandon();
    }
    t->lane = mine;
    t->what = what;
    t->site = site;
    Meeting* meeting = nullptr;
    for (Meeting& m : w.meetings)
        if (m.mask == mask) meeting = &m;
    if (!meeting) {
        w.meetings.emplace_back();
        meeting = &w.meetings.back();
        meeting->mask = mask;
        meeting->here = 0;
        meeting->op = op;
        meeting->what = what;
    } else if (meeting->op != op || (meeting->what != what && strcmp(meeting->what, what))) {
        set_failure(kLaunchFailure, site, "%s: lanes of warp %u of %s meet at different operations: %s%s and %s%s",
                    b->grid->name.c_str(), t->warp(), block_name(b).c_str(), meeting->what,
                    at(meeting->lanes[__builtin_ctz(meeting->here)]->site).c_str(), what, at(site).c_str());
        abandon();
    }
    meeting->here |= t->bit();
    meeting->lanes[t->view.rank % kWarp] = t;
    if (meeting->here == (mask & w.alive)) {
        check_meetings(w, t);
    } else {
        t->wait = Wait::warp;
        dispatch();
    }
}

EXPORT unsigned spg_active_mask(spg_site site)
{
    Thread* t = self();
    t->what = "__activemask()";
    t->site = site;
    t->wait = Wait::active;
    converging.push_back(t);
    dispatch();
    return self()->result;
}

// A seed also stops a thread here now and then: until nothing else can run, as far behind as another can be, or until
// its turn among those that are ready.
EXPORT void spg_switch()
{
    Thread* t = self();
    if (!t) return;
    if (!seed)
        spinning.push_back(t);  // so many relaxed loads may be a spin
    else if (draw(8))
        return;
    else if (draw(2))
        spinning.push_back(t);
    else
        make_ready(t);
    dispatch();
}

EXPORT void spg_yield()
{
    Thread* t = self();
    if (!t) return;
    if (++t->spins % kSpinsBeforeYield == 0) {
        spinning.push_back(t);
        dispatch();
    } else if (seed) {
        spg_switch();
    }
}

EXPORT void spg_named_barrier(int name, unsigned threads, spg_site site)
{
    Thread* t = self();
    Block* b = t->block;
    if (name < 1 || name > 15 || threads == 0 || threads % kWarp) {
        set_failure(kLaunchFailure, site, "%s: barrier %d for %u threads: names are 1 to 15, threads whole warps",
                    b->grid->name.c_str(), name, threads);
        abandon();
    }
    t->spins = 0;
    t->what = "a named barrier";
    t->site = site;
    NamedBarrier* meeting = nullptr;
    for (NamedBarrier& n : b->named)
        if (n.name == name) meeting = &n;
    if (!meeting) {
        b->named.push_back({name, threads, {}});
        meeting = &b->named.back();
    }
    if (meeting->here.empty()) meeting->threads = threads;
    if (meeting->threads != threads) {
        set_failure(kLaunchFailure, site, "%s: threads of %s meet at barrier %d for %u and for %u threads",
                    b->grid->name.c_str(), block_name(b).c_str(), name, meeting->threads, threads);
        abandon();
    }
    meeting->here.push_back(t);
    if (meeting->here.size() == threads) {
        SPG_TELL(notify::team_meets(meeting->here);)
        for (Thread* other : meeting->here) make_ready(other);
        meeting->here.clear();
    } else {
        t->wait = Wait::named;
    }
    dispatch();
}

EXPORT void spg_count_atomic(const volatile void* address, spg_atomic kind)
{
    const char* p = (const char*)address;
    const Block* b = self()->block;
    bool shared = b->shared->dynamic && p >= b->shared->dynamic && p < b->shared->dynamic + b->grid->shared;
    for (const SharedArray& a : b->shared->arrays) shared = shared || (p >= a.memory && p < a.memory + a.bytes);
    ++(shared ? device->shared_atomics : device->global_atomics);
    if (!shared && kind != SPG_OTHER) ++(kind == SPG_CLAIM ? device->claims : device->reservations);
    spg_yield();
}

EXPORT void spg_trap(const char* what, spg_site site)
{
    set_failure(kLaunchFailure, site, "%s: %s in %s", self()->block->grid->name.c_str(), what,
                thread_name(self()).c_str());
    abandon();
}

EXPORT long long spg_nanoseconds()
{
    spg_yield();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

EXPORT int spg_last_error(int clear)
{
    Thread* t = self();
    const int error = t->error;
    if (clear) t->error = 0;
    return error;
}

namespace {

bool bad_shape(dim3 grid, dim3 block, size_t shared)
{
    return !block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64 ||
           (unsigned long long)block.x * block.y * block.z > 1024 || grid.x > 0x7fffffffu || grid.y > 65535 ||
           grid.z > 65535 || shared > limits.shared;
}

Grid* new_grid(const char* name, spg_call call, void* kernel, dim3 grid, dim3 block, size_t shared)
{
    Grid* g = new Grid;
    g->name = name;
    g->call = call;
    g->kernel = kernel;
    g->grid = grid;
    g->block = block;
    g->shared = shared;
    g->blocks = (unsigned long long)grid.x * grid.y * grid.z;
    g->slot = grids.size();
    grids.push_back(g);
    return g;
}

// Does a pointer lead to memory that no other grid may see?
const char* private_memory(const void* pointer)
{
    const char* p = (const char*)pointer;
    for (const Block* b : live) {
        if (b->shared->dynamic && p >= b->shared->dynamic && p < b->shared->dynamic + b->grid->shared) return "shared";
        for (const SharedArray& a : b->shared->arrays)
            if (p >= a.memory && p < a.memory + a.bytes) return "shared";
    }
    return p >= current->stack && p < current->stack + current->bytes ? "local" : nullptr;
}

}  // namespace

EXPORT int spg_launch_child(const char* name, spg_call call, void* kernel, void** arguments, const size_t* sizes,
                            int count, dim3 grid, dim3 block, size_t shared, spg_order order, const void* stream,
                            spg_site site)
{
    Thread* t = self();
    Grid* parent = t->block->grid;
    if (bad_shape(grid, block, shared) || !grid.x || !grid.y || !grid.z) return t->error = kInvalidConfiguration;
    if (order == SPG_STREAM && stream && !parent->own_streams.count(stream)) return t->error = kInvalidHandle;
    if (pending >= device->pending_limit) return t->error = kPendingExceeded;
    Grid* g = new_grid(name, call, kernel, grid, block, shared);
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
        if (sizes[i] == sizeof(void*))
            if (const char* space = private_memory(*(void**)arguments[i])) {
                set_failure(kLaunchFailure, site,
                            "%s: child %s gets a pointer to %s memory of its parent, which it cannot see",
                            parent->name.c_str(), name, space);
                abandon();
            }
        total += (sizes[i] + 15) / 16 * 16;
    }
    g->storage.resize(total);
    total = 0;
    for (int i = 0; i < count; ++i) {
        memcpy(g->storage.data() + total, arguments[i], sizes[i]);
        g->pointers.push_back(g->storage.data() + total);
        total += (sizes[i] + 15) / 16 * 16;
    }
    g->arguments = g->pointers.data();
    g->parent = parent;
    SPG_TELL(notify::begin_grid(g); notify::child(g, t);)
    ++pending;
    ++device->child_launches;
    if (order == SPG_TAIL) {
        parent->tails.push_back(g);
        return 0;
    }
    ++parent->open_children;
    if (order == SPG_STREAM) {
        g->in_stream = true;
        g->stream = {stream ? 0 : t->block->serial, stream};
        SPG_TELL(notify::into_stream(g);)
        Grid*& last = streams[g->stream];
        if (last)
            last->successor = g;
        else
            enqueue(g);
        last = g;
    } else {
        enqueue(g);
    }
    if (seed && draw(4) == 0) {  // sometimes the child runs before its parent goes on
        spinning.push_back(t);
        dispatch();
    }
    return 0;
}

// A stream belongs to the grid that made it. What is in it when it is destroyed is still run, in order.
EXPORT int spg_stream_create(const void** stream, int non_blocking)
{
    Thread* t = self();
    if (!non_blocking) return t->error = kInvalidValue;
    *stream = (const void*)++streams_made;
    t->block->grid->own_streams.insert(*stream);
    return 0;
}

EXPORT int spg_stream_destroy(const void* stream)
{
    Thread* t = self();
    return t->block->grid->own_streams.erase(stream) ? 0 : t->error = kInvalidHandle;
}

EXPORT void* spg_device_malloc(size_t bytes)
{
    if (heap_used > device->heap_limit || bytes > device->heap_limit - heap_used) return nullptr;
    void* pointer = malloc(bytes ? bytes : 1);
    if (!pointer) return nullptr;
    fill_with_junk(pointer, bytes);
    heap[pointer] = bytes;
    heap_used += bytes;
    SPG_TELL(notify::memory(pointer, bytes, false, "", 1);)
    return pointer;
}

EXPORT void spg_device_free(void* pointer)
{
    if (!pointer) return;
    auto at = heap.find(pointer);
    if (at == heap.end()) spg_trap("free() of what malloc() did not give", {nullptr, 0});
    heap_used -= at->second;
    heap.erase(at);
    SPG_TELL(notify::freed(pointer);)
    free(pointer);
}

// ---- called by the host ---------------------------------------------------------------------------------

// Runs one grid and all it launches. Returns 0, or CUDA's number of the error; spg_message() says more.
EXPORT SPG_NOINLINE int spg_launch(const char* name, spg_call call, void* kernel, void** arguments,
                                   const unsigned* shape, unsigned long long shared, int cooperative, spg_device* on,
                                   const Limits* within)
{
    pthread_mutex_lock(&launch_lock);
    device = on;
    limits = *within;
    seed = on->seed;
    failure = 0;
    message[0] = failure_place[0] = 0;
    const dim3 grid(shape[0], shape[1], shape[2]), block(shape[3], shape[4], shape[5]);
    const unsigned long long threads = 1ull * grid.x * grid.y * grid.z * block.x * block.y * block.z;
    if (bad_shape(grid, block, shared)) {
        set_failure(kInvalidConfiguration, {nullptr, 0},
                    "%s: invalid launch: grid (%u,%u,%u), block (%u,%u,%u), %llu bytes of shared memory", name, grid.x,
                    grid.y, grid.z, block.x, block.y, block.z, shared);
    } else if (cooperative && threads > limits.live) {
        set_failure(kTooLarge, {nullptr, 0},
                    "%s: a cooperative launch of %llu threads; the host device holds %llu at once", name, threads,
                    limits.live);
    } else if (grid.x && grid.y && grid.z) {
        ++device->kernel_launches;
        random_state = seed;
        spg_relaxed_loads = 0;  // so that a launch runs as the same one before did
#ifdef SPG_HOOKS
        spg_switch_mask = seed ? 0 : 0xff;  // accesses are slow, and so are spins
#else
        spg_switch_mask = seed ? 0 : 0xffff;
#endif
        Grid* g = new_grid(name, call, kernel, grid, block, shared);
        g->arguments = arguments;
        g->cooperative = cooperative;
        SPG_TELL(notify::begin_launch(); notify::begin_grid(g);)
        enqueue(g);
        {
            FaultGuard guard;
            run_all();
        }
        SPG_TELL(notify::end_launch();)
        if (failure) clean_up();
    }
    const int result = failure;
    pthread_mutex_unlock(&launch_lock);
    return result;
}

EXPORT const char* spg_message() { return message; }
EXPORT const char* spg_place() { return failure_place; }

// Device memory of exactly `bytes`, filled with junk. 256-byte aligned, as cudaMalloc's.
EXPORT void* spg_alloc(size_t bytes)
{
    void* pointer;
    if (posix_memalign(&pointer, 256, bytes ? bytes : 1)) return nullptr;
    fill_with_junk(pointer, bytes);
    SPG_TELL(pthread_mutex_lock(&launch_lock); notify::memory(pointer, bytes, false, "", 1);
             pthread_mutex_unlock(&launch_lock);)
#ifdef SPG_ASAN
    if (!bytes) __asan_poison_memory_region(pointer, 1);
#endif
    return pointer;
}

EXPORT void spg_free(void* pointer)
{
    SPG_TELL(pthread_mutex_lock(&launch_lock); notify::freed(pointer); pthread_mutex_unlock(&launch_lock);)
    free(pointer);
}

#ifdef SPG_ASAN
namespace {
__attribute__((constructor)) void watch() { __asan_set_error_report_callback(on_report); }
}  // namespace
#endif

#ifdef SPG_HOOKS
#include "spg_hook_calls.hpp"
#endif
