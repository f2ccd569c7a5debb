// binned_fused.cu: y = A x by propagation blocking, in one launch whose products never leave the L2.
//
// Layout   see formats/binned_chunks.py. As in binned.cu, slots come in groups of 8 with one destination; two
//          neighbouring threads take a group, four slots (a quad) each.
//          product value_quad [buffers][2 * most_groups]: chunk c is in buffer c mod `buffers`.
//          flags unsigned [2 * chunks + 1], zero before and after: blocks that have multiplied, and added up, chunk c;
//          blocks that are done.
// Mapping  a cooperative launch, one block on an SM. Block b keeps the columns of tiles b, b + grid, ... of x in
//          shared memory (with as many SMs as tiles: one tile, for the whole launch), and multiplies their entries,
//          chunk after chunk; it adds up every grid-th bin of a chunk, in shared memory.
// Policy   what is read once from DRAM is marked for early eviction, or it would push the products out of the L2.
// Wins     where x does not fit in L1 and columns jump.
// Loses    where columns are local, and on small matrices.
// Idea     Beamer, Asanovic and Patterson, "Reducing PageRank communication via propagation blocking", IPDPS 2017;
//          chunks, and two teams that hand them over by counters, are spgraph's.
#include "quad.cuh"
#include "../common/ordered.cuh"
#include "../common/teams.cuh"

// SPG_STAGES: quads that a multiplying thread has in flight, less one; SPG_DEPTH: those that an adding thread loads at
// once.
#if !defined(SPG_STAGES) || !defined(SPG_BLOCK) || !defined(SPG_DEPTH)
#error "the host function defines SPG_STAGES, SPG_BLOCK and SPG_DEPTH"
#endif

// Loads and copies of what is read once: the L2 gives it up first.
#ifdef SPG_HOST
// Why one launch.
// binned.cu is bound by DRAM, where half of what it moves are products: written by its first kernel, read by its
// second. Here the rows come in chunks, small enough for the products of two of them to stay in the L2. Some of a
// block's warps multiply one chunk while the others add up the products of the chunk before, so that loads are under
// way all the time, and no block waits for the slowest one at a barrier of the whole grid.
//
// Bytes    float32: 4 (value) + 2 (column) + 0.5 (destination) + 2 (sum) a slot from DRAM, 8 more (the product,
//          there and back) that meet in the L2: 16.5 in all there. A CSR kernel moves 8 from DRAM and 32 (the sector
//          that a gather of x takes) through the L2.

typedef int policy_t;
static inline policy_t evict_first() { return 0; }
static inline ushort4 stream_sums(const ushort4* p, policy_t) { return spg_stream(p); }
template <int BYTES>
static inline void copy_once(void* shared, const void* global, policy_t)
{
    spg_copy_async<BYTES>(shared, global);
}
#elif __CUDA_ARCH__ >= 800
typedef unsigned long long policy_t;
__device__ __forceinline__ policy_t evict_first()
{
    policy_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ ushort4 stream_sums(const ushort4* p, policy_t policy)
{
    ushort4 r;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=h"(r.x), "=h"(r.y), "=h"(r.z), "=h"(r.w)
                 : "l"(p), "l"(policy));
    return r;
}
template <int BYTES>
__device__ __forceinline__ void copy_once(void* shared, const void* global, policy_t policy)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "l"(policy)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES),
                     "l"(policy)
                     : "memory");
}
#else
typedef int policy_t;
__device__ __forceinline__ policy_t evict_first() { return 0; }
__device__ __forceinline__ ushort4 stream_sums(const ushort4* p, policy_t) { return spg_stream(p); }
template <int BYTES>
__device__ __forceinline__ void copy_once(void* shared, const void* global, policy_t)
{
    spg_copy_async<BYTES>(shared, global);
}
#endif

// The L2 answers, never a line of L1 that is older than the product: others write it during this launch.
__device__ __forceinline__ value_quad load_product(const value_quad* p)
{
    value_quad r;
    if constexpr (sizeof(value_t) == 4) {
        const float4 a = __ldcg(reinterpret_cast<const float4*>(p));
        r.at[0] = a.x, r.at[1] = a.y, r.at[2] = a.z, r.at[3] = a.w;
    } else {
        const double2 a = __ldcg(reinterpret_cast<const double2*>(p));
        const double2 b = __ldcg(reinterpret_cast<const double2*>(p) + 1);
        r.at[0] = a.x, r.at[1] = a.y, r.at[2] = b.x, r.at[3] = b.y;
    }
    return r;
}

// The bits of a sum, for compare-and-swap.
template <int BYTES>
struct word_of;
template <>
struct word_of<4> {
    typedef unsigned type;
};
template <>
struct word_of<8> {
    typedef unsigned long long type;
};
typedef word_of<sizeof(value_t)>::type word_t;

__device__ __forceinline__ word_t bits_of(value_t value)
{
    word_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

__device__ __forceinline__ value_t value_of(word_t word)
{
    value_t value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

// Shared memory has no addition of floating-point numbers; atomicAdd is a loop of compare-and-swap. This is one round
// of such loops side by side: four, or of 8-byte values two, as registers allow. Two of them, or two threads, may want
// the same sum: who was not first goes on.
__device__ __forceinline__ void add_four(const value_quad& p, ushort4 to, value_t* sums)
{
    value_t* const sum[4] = {sums + to.x, sums + to.y, sums + to.z, sums + to.w};
    constexpr int SIDE = sizeof(value_t) == 8 ? 2 : 4;
#pragma unroll
    for (int first = 0; first < 4; first += SIDE) {
        word_t seen[SIDE], got[SIDE];
#pragma unroll
        for (int j = 0; j < SIDE; ++j) seen[j] = bits_of(*const_cast<volatile value_t*>(sum[first + j]));
#pragma unroll
        for (int j = 0; j < SIDE; ++j)
            got[j] = atomicCAS(reinterpret_cast<word_t*>(sum[first + j]), seen[j],
                               bits_of(value_of(seen[j]) + p.at[first + j]));
#pragma unroll
        for (int j = 0; j < SIDE; ++j)
            if (got[j] != seen[j]) atomicAdd(sum[first + j], p.at[first + j]);
    }
}

// Adds each extra sum to that of its row. Those of one row are neighbours: a warp adds up what it has of them first.
__device__ __forceinline__ void add_extras(int extras, const unsigned short* __restrict__ row, const value_t* extra,
                                           value_t* sums, int thread, int threads)
{
    const int lane = thread & 31;
    for (int i = thread; i - lane < extras; i += threads) {
        const int target = i < extras ? row[i] : -1;
        value_t total = i < extras ? extra[i] : 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            const int target_above = __shfl_down_sync(SPG_FULL_WARP, target, distance);
            const value_t total_above = __shfl_down_sync(SPG_FULL_WARP, total, distance);
            if (lane + distance < 32 && target_above == target) total += total_above;
        }
        const int target_below = __shfl_up_sync(SPG_FULL_WARP, target, 1);
        if (target >= 0 && (lane == 0 || target_below != target)) atomicAdd(sums + target, total);
    }
}

// Waits until all blocks have said so, and makes what they wrote before visible to the whole team.
__device__ __forceinline__ void wait_for_all(const unsigned* flag, int team, int threads, int thread)
{
    if (thread == 0)
        while (load_acquire(flag) < gridDim.x) {
        }
    team_barrier(team, threads);
}

// Says that this block's team is done with a chunk.
__device__ __forceinline__ void say_done(unsigned* flag, int team, int threads, int thread)
{
    team_barrier(team, threads);
    if (thread == 0) add_release(flag, 1);
}

// Says that this block has read a chunk's products, so that others may overwrite them. All threads have passed a
// barrier since they read; the release orders their reads, too, before the count.
__device__ __forceinline__ void say_read(unsigned* flag) { add_release(flag, 1); }

// A multiplying thread's way through its quads: tiles blockIdx.x, blockIdx.x + gridDim.x, ... of chunk 0, 1, ...
struct quads_t {
    const index_t* __restrict__ start;
    int quad, end, chunk, tile, chunks, tiles, thread, threads;

    __device__ __forceinline__ void enter()
    {
        while (chunk < chunks) {
            const index_t* bounds = start + (long long)chunk * tiles + tile;
            quad = 2 * bounds[0] + thread;
            end = 2 * bounds[1];
            if (quad < end) return;
            leave();
        }
    }
    __device__ __forceinline__ void leave()
    {
        tile += gridDim.x;
        if (tile >= tiles) {
            tile = blockIdx.x;
            ++chunk;
        }
    }
    __device__ __forceinline__ void step()
    {
        quad += threads;
        if (quad >= end) {
            leave();
            enter();
        }
    }
};

// A bin, and the way from one of a block's bins to the next: every grid-th of each chunk.
struct bin_t {
    int chunk;
    index_t bin, first, end, extra;  // `first` and `end` as in bin_row
    int extras, quad, stop;

    // The bin `candidate`, or, if that is beyond the end of chunk `c`, the next one.
    __device__ __forceinline__ void find(int c, int chunks, index_t candidate, const index_t* __restrict__ chunk_bin,
                                         const index_t* __restrict__ bin_group, const index_t* __restrict__ bin_row,
                                         const index_t* __restrict__ extra_ptr)
    {
        for (chunk = c, bin = candidate; chunk < chunks && bin >= chunk_bin[chunk + 1]; ++chunk)
            bin = chunk_bin[chunk + 1] + blockIdx.x;
        if (chunk >= chunks) return;
        quad = 2 * bin_group[bin];
        stop = 2 * bin_group[bin + 1];
        first = bin_row[2 * bin];
        end = bin_row[2 * bin + 1];
        extra = extra_ptr[bin];
        extras = extra_ptr[bin + 1] - extra;
    }
};

__device__ __forceinline__ void ask_for_sums(ushort4 (&to)[SPG_DEPTH], int q, int stop, int threads,
                                             const ushort4* __restrict__ sum, policy_t once)
{
#pragma unroll
    for (int k = 0; k < SPG_DEPTH; ++k)
        if (q + k * threads < stop) to[k] = stream_sums(sum + q + k * threads, once);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    binned_fused(int chunks, int tiles, int buffers, index_t most_groups, index_t widest, int most_sums,
                 unsigned multipliers, const index_t* __restrict__ tile_col, const index_t* __restrict__ start,
                 const value_quad* __restrict__ val, const ushort4* __restrict__ col, const index_t* __restrict__ dest,
                 const index_t* __restrict__ chunk_bin, const index_t* __restrict__ bin_group,
                 const index_t* __restrict__ bin_row, const ushort4* __restrict__ sum,
                 const index_t* __restrict__ extra_ptr, const unsigned short* __restrict__ extra_row,
                 const index_t* __restrict__ split_row, index_t split_rows, const value_t* __restrict__ x,
                 value_quad* product, unsigned* flags, value_t* y)
{
    SPG_DYNAMIC_SHARED(value_quad, shared);
    const bool multiplies = threadIdx.x < multipliers;
    const int threads = multiplies ? multipliers : blockDim.x - multipliers;
    const int thread = multiplies ? threadIdx.x : threadIdx.x - multipliers;
    const policy_t once = evict_first();
    unsigned* const multiplied = flags;
    unsigned* const added = flags + chunks;
    // Slots [stage][thread] of values, columns and destinations; a tile; two sets of a bin's sums.
    value_quad* const val_slot = shared + thread;
    ushort4* const col_slot = reinterpret_cast<ushort4*>(shared + SPG_STAGES * multipliers) + thread;
    index_t* const dest_slot = reinterpret_cast<index_t*>(col_slot - thread + SPG_STAGES * multipliers) + thread;
    value_t* const tile = reinterpret_cast<value_t*>(dest_slot - thread + SPG_STAGES * multipliers);
    value_t* const sums = tile + widest;
    // Rows that are in several bins are added up with atomics. The adding warps have waited for all that multiply.
    if (multiplies)
        for (index_t i = blockIdx.x * threads + thread; i < split_rows; i += gridDim.x * threads) y[split_row[i]] = 0;

    if (multiplies) {
        quads_t ahead{start, 0, 0, 0, (int)blockIdx.x, chunks, tiles, thread, threads};
        if ((int)blockIdx.x >= tiles) ahead.chunk = chunks;
        ahead.enter();
        int put = 0;
        // Copies the next quad into this thread's own slots. It reads only what it copied itself: no barrier.
        const auto fetch = [&] {
            if (ahead.chunk < chunks) {
                const int slot = put * threads;
                copy_once<16>(val_slot + slot, val + ahead.quad, once);
                if constexpr (sizeof(value_quad) == 32)
                    copy_once<16>(reinterpret_cast<char*>(val_slot + slot) + 16,
                                  reinterpret_cast<const char*>(val + ahead.quad) + 16, once);
                copy_once<8>(col_slot + slot, col + ahead.quad, once);
                copy_once<4>(dest_slot + slot, dest + (ahead.quad >> 1), once);
                ahead.step();
            }
            put = put + 1 == SPG_STAGES ? 0 : put + 1;
            spg_copy_commit();
        };
        for (int k = 0; k < SPG_STAGES - 1; ++k) fetch();
        int take = 0, resident = -1;
        for (int c = 0; c < chunks; ++c) {
            value_quad* const target = product + (long long)(c % buffers) * 2 * most_groups;
            if (c >= buffers) wait_for_all(added + c - buffers, 0, threads, thread);
            for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
                if (t != resident) {
                    const index_t begin = tile_col[t], width = tile_col[t + 1] - begin;
                    team_barrier(0, threads);
                    for (index_t i = thread; i < width; i += threads) tile[i] = x[begin + i];
                    team_barrier(0, threads);
                    resident = t;
                }
                const index_t* const bounds = start + (long long)c * tiles + t;
                const int end = 2 * bounds[1];
                for (int quad = 2 * bounds[0] + thread; quad < end; quad += threads) {
                    fetch();
                    spg_copy_wait<SPG_STAGES - 1>();
                    const int slot = take * threads;
                    value_quad a = val_slot[slot];
                    const ushort4 at = col_slot[slot];
                    const int to = 2 * dest_slot[slot] + (quad & 1);
                    a.at[0] *= tile[at.x];
                    a.at[1] *= tile[at.y];
                    a.at[2] *= tile[at.z];
                    a.at[3] *= tile[at.w];
                    target[to] = a;
                    take = take + 1 == SPG_STAGES ? 0 : take + 1;
                }
            }
            say_done(multiplied + c, 0, threads, thread);
        }
        spg_copy_wait<0>();
    } else {
        // Nothing that a bin needs is asked for when it is needed: where the next bin is, and the first of its
        // `sum`, are on their way while this one is added up; so is the answer whether its products are there.
        SPG_SHARED(unsigned, ready, 2);
        for (int i = thread; i < 2 * most_sums; i += threads) sums[i] = 0;
        if (thread < 2) ready[thread] = 0;
        bin_t next;
        next.find(0, chunks, blockIdx.x, chunk_bin, bin_group, bin_row, extra_ptr);
        ushort4 to[SPG_DEPTH];
        if (next.chunk < chunks)  // a block beyond the bins of every chunk has none
            ask_for_sums(to, next.quad + thread, next.stop, threads, sum, once);
        int set = 0, done = 0;  // chunks that this team is done with
        team_barrier(1, threads);
        while (next.chunk < chunks) {
            const bin_t bin = next;
            for (; done < bin.chunk; ++done)
                if (thread == 0) say_read(added + done);
            next.find(bin.chunk, chunks, bin.bin + gridDim.x, chunk_bin, bin_group, bin_row, extra_ptr);
            if (ready[set] != gridDim.x) wait_for_all(multiplied + bin.chunk, 1, threads, thread);
            const value_quad* const source =
                product + ((long long)(bin.chunk % buffers) * 2 * most_groups - 2LL * bin_group[chunk_bin[bin.chunk]]);
            value_t* const mine = sums + set * most_sums;
            for (int q = bin.quad + thread; q < bin.stop; q += SPG_DEPTH * threads) {
                value_quad p[SPG_DEPTH];
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k)
                    if (q + k * threads < bin.stop) p[k] = load_product(source + q + k * threads);
                ushort4 here[SPG_DEPTH];
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k) here[k] = to[k];
                const int after = q + SPG_DEPTH * threads;
                if (after < bin.stop) ask_for_sums(to, after, bin.stop, threads, sum, once);
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k)
                    if (q + k * threads < bin.stop) add_four(p[k], here[k], mine);
            }
            if (next.chunk < chunks) ask_for_sums(to, next.quad + thread, next.stop, threads, sum, once);
            if (thread == threads - 1) ready[set ^ 1] = next.chunk < chunks ? load_acquire(multiplied + next.chunk) : 0;
            team_barrier(1, threads);
            const bool shared_first = bin.first < 0, shared_last = bin.end < 0;
            const index_t first = shared_first ? ~bin.first : bin.first;
            const int rows = (shared_last ? ~bin.end : bin.end) - first;
            if (bin.extras > 0) {
                add_extras(bin.extras, extra_row + bin.extra, mine + rows, mine, thread, threads);
                team_barrier(1, threads);
            }
            for (int i = thread; i < rows; i += threads) {
                const value_t total = mine[i];
                if ((i == 0 && shared_first) || (i == rows - 1 && shared_last))
                    atomicAdd(y + first + i, total);
                else
                    y[first + i] = total;
                mine[i] = 0;
            }
            // The next bin has the other set; the barrier after it is passed before this one is used again.
            for (int i = thread; i < bin.extras + 32; i += threads) mine[rows + i] = 0;
            set ^= 1;
        }
        for (; done < chunks; ++done)
            if (thread == 0) say_read(added + done);
    }
    // The last block leaves the counters as it found them: after the others' last looks at them, hence the acquire.
    __syncthreads();
    if (threadIdx.x == 0 && add_acquire_release(flags + 2 * chunks, 1) == gridDim.x - 1)
        for (int i = 0; i <= 2 * chunks; ++i) flags[i] = 0;
}
