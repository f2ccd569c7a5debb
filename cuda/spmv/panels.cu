// panels.cu: y = A x by row panels that stream x: no gather leaves an SM, and no product is written anywhere.
//
// What a gather of x costs on a matrix without locality is not bytes of DRAM but sectors of L2: 32 bytes for 4 that
// are used, at some 4.6 TB/s on an H200. Here a block keeps the sums of a panel of rows in shared memory and lets x
// run past, a tile of columns at a time, also in shared memory; the panel's entries come in the order of their tiles.
// Reading all of x once per panel would be as bad (132 panels x 16 MB); a cluster of SPG_CLUSTER blocks reads each
// tile once: every block asks for its share of it, and the copy engine delivers that share to all of them.
//
// Layout   see formats/panels.py. Entries in groups of 128: values [slots], place uint16 [slots][2] (slot of the sum;
//          place of the column in the ring of tiles), span int32 [groups][2] (first and last tile, counted along the
//          cluster's list of tiles). Behind the sums of the rows and their extra slots are 32 that padding adds to.
// Mapping  a block per panel, one block on an SM. On compute capability 9.0 and later the last warp keeps the ring of
//          `stages` tiles filled (cp.async.bulk with multicast, one mbarrier a stage), and the other warps take groups
//          by turns, each at its own pace: a warp says in `progress` which tile it still needs, and the copying warps
//          tell each other the least of those, so that no tile is overwritten that some warp of the cluster needs.
//          Elsewhere all warps fill the next tile together, and take the groups that end in it.
// Sums     are added in shared memory by compare-and-swap, four of a thread at a time. The order of the entries within
//          a tile is the format's: banks in turn, and a row that has many of a panel's entries has several slots.
// Bytes    float32: 4 + 4 an entry from DRAM; x from L2 once per cluster; per SM, x once into shared memory, at some
//          64 bytes a cycle: 16 MB take 0.14 ms. So it wins where x does not fit in L1 and columns jump, and loses
//          where columns are local or the panels' tiles are nearly empty.
// Idea     column-blocked SpMV with local sums (Nishtala, Vuduc, Demmel and Yelick, "When cache blocking of sparse
//          matrix vector multiply works and why", 2007), with the copy engine's multicast as the means.
#include "../common/stream.cuh"

#ifndef SPG_CLUSTER
#define SPG_CLUSTER 8
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 1024
#endif
#ifndef SPG_DEPTH
#define SPG_DEPTH 2  // groups that a warp has under way
#endif
#define SPG_MOST_STAGES 32

struct __align__(16) four_t {
    value_t v[4];
};

// A thread's part of a group: entries 4 * lane ... 4 * lane + 3.
struct part_t {
    four_t value;
    int4 place;
    int2 span;
};

__device__ __forceinline__ four_t stream_four(const value_t* p)
{
    four_t r;
    if constexpr (sizeof(value_t) == 4) {
        const float4 a = spg_stream(reinterpret_cast<const float4*>(p));
        r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
    } else {
        const double2 a = spg_stream(reinterpret_cast<const double2*>(p));
        const double2 b = spg_stream(reinterpret_cast<const double2*>(p) + 1);
        r.v[0] = a.x, r.v[1] = a.y, r.v[2] = b.x, r.v[3] = b.y;
    }
    return r;
}

__device__ __forceinline__ void load_part(part_t& part, int group, int end, const value_t* __restrict__ val,
                                          const int4* __restrict__ place, const int2* __restrict__ span)
{
    if (group >= end) return;
    const long long at = 32LL * group + (threadIdx.x & 31);
    part.span = spg_stream(span + group);
    part.place = spg_stream(place + at);
    part.value = stream_four(val + 4 * at);
}

// The bits of a sum, for compare-and-swap.
template <int BYTES>
struct spg_bits;
template <>
struct spg_bits<4> {
    typedef unsigned word;
};
template <>
struct spg_bits<8> {
    typedef unsigned long long word;
};
typedef spg_bits<sizeof(value_t)>::word word_t;

__device__ __forceinline__ word_t bits_of(value_t value)
{
    word_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

__device__ __forceinline__ value_t value_of(word_t word)
{
    value_t value;
    memcpy(&value, &word, sizeof(word));
    return value;
}

__device__ __forceinline__ void add_part(const part_t& part, const value_t* ring, value_t* sums)
{
    const unsigned place[4] = {(unsigned)part.place.x, (unsigned)part.place.y, (unsigned)part.place.z,
                               (unsigned)part.place.w};
    value_t product[4], *sum[4];
    word_t seen[4], got[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        product[j] = part.value.v[j] * ring[place[j] >> 16];
        sum[j] = sums + (place[j] & 0xFFFF);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) seen[j] = bits_of(*const_cast<volatile value_t*>(sum[j]));
    // Two of the four, or two threads, may want the same sum: whoever was not first adds once more.
#pragma unroll
    for (int j = 0; j < 4; ++j)
        got[j] = atomicCAS(reinterpret_cast<word_t*>(sum[j]), seen[j], bits_of(value_of(seen[j]) + product[j]));
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (got[j] != seen[j]) atomicAdd(sum[j], product[j]);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SPG_COPY_ENGINE 1
// Multicast belongs to architectures with an "a" (see device/nvcc.py); without it every block reads for itself.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define SPG_SHARERS SPG_CLUSTER
#else
#define SPG_SHARERS 1
#endif
#define SPG_IN_CLUSTERS __cluster_dims__(SPG_SHARERS, 1, 1)

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ bool is_full(unsigned barrier, unsigned parity)
{
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

// Says that the caller's warp needs no tile before `tile` any more. All lanes have added what they read of them, so
// those reads are over: a fence would only wait for the loads of the groups ahead.
__device__ __forceinline__ void say_progress(unsigned* progress, unsigned tile)
{
    asm volatile("st.volatile.shared::cta.u32 [%0], %1;" ::"r"(shared_address(progress)), "r"(tile) : "memory");
}
#else
#define SPG_IN_CLUSTERS
#endif

SPG_KERNEL SPG_IN_CLUSTERS __launch_bounds__(SPG_BLOCK, 1)
panels(index_t cols, int tile_width, int stages, const index_t* __restrict__ panel_row,
       const index_t* __restrict__ panel_group, const index_t* __restrict__ extra_ptr,
       const unsigned short* __restrict__ extra_slot, const index_t* __restrict__ tile_ptr,
       const index_t* __restrict__ tile_id, const int2* __restrict__ span, const value_t* __restrict__ val,
       const int4* __restrict__ place, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    SPG_DYNAMIC_SHARED(value_t, ring);
    value_t* const sums = ring + stages * tile_width;
    const int panel = blockIdx.x, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const index_t row = panel_row[panel], rows = panel_row[panel + 1] - row;
    const index_t extra = extra_ptr[panel], extras = extra_ptr[panel + 1] - extra;
    const int tiles = tile_ptr[panel / SPG_CLUSTER + 1] - tile_ptr[panel / SPG_CLUSTER];
    tile_id += tile_ptr[panel / SPG_CLUSTER];
    const int last_group = panel_group[panel + 1];
    int group = panel_group[panel] + warp;

#ifdef SPG_COPY_ENGINE
    SPG_SHARED(unsigned long long, full, SPG_MOST_STAGES);  // mbarriers: the tile in a stage is all there
    SPG_SHARED(unsigned, progress, 32);                     // by warp: the first tile that it still needs
    SPG_SHARED(unsigned, peer, SPG_SHARERS);                // by block of the cluster: the least of those
    const int lane = threadIdx.x & 31, takers = warps - 1;
    const bool copies = warp == takers;
    for (int i = threadIdx.x; i < rows + extras + 32; i += blockDim.x) sums[i] = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; ++s)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + s)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (threadIdx.x < 32) progress[threadIdx.x] = 0;
    if (threadIdx.x < SPG_SHARERS) peer[threadIdx.x] = 0;
    cluster_arrive();
    part_t part[SPG_DEPTH];
    if (!copies) {
#pragma unroll
        for (int d = 0; d < SPG_DEPTH; ++d) load_part(part[d], group + d * takers, last_group, val, place, span);
    }
    cluster_wait();
    if (copies) {
        unsigned rank, told = 0, all = 0, arrived_parity = 0;
        int arrived = 0, arrived_stage = 0;  // tiles that are all there, or have been
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        unsigned remote = 0;  // this block's word in the block that this lane tells
        if (lane < SPG_SHARERS)
            asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(peer + rank)), "r"(lane));
        // Passes on how far this block's warps are, and sees how far those of the others are.
        const auto look = [&] {
            unsigned mine = 0xFFFFFFFF, theirs = 0xFFFFFFFF;
            if (lane < takers)
                asm volatile("ld.volatile.shared::cta.u32 %0, [%1];"
                             : "=r"(mine)
                             : "r"(shared_address(progress + lane))
                             : "memory");
            mine = __reduce_min_sync(0xFFFFFFFFu, mine);
            // Warps that need nothing of a tile do not wait for it. But it must have arrived before the next one
            // is sent into its stage, or before this block ends.
            while (arrived < (int)mine &&
                   __all_sync(0xFFFFFFFFu, is_full(shared_address(full + arrived_stage), arrived_parity))) {
                ++arrived;
                if (++arrived_stage == stages) {
                    arrived_stage = 0;
                    arrived_parity ^= 1;
                }
            }
            mine = (unsigned)arrived;
            if (mine != told) {
                told = mine;
                if (lane < SPG_SHARERS)
                    asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(mine)
                                 : "memory");
            }
            if (lane < SPG_SHARERS)
                asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];"
                             : "=r"(theirs)
                             : "r"(shared_address(peer + lane))
                             : "memory");
            all = __reduce_min_sync(0xFFFFFFFFu, theirs);
        };
        int stage = 0;
        index_t next = tiles ? tile_id[0] : 0;
        for (int t = 0; t < tiles; ++t) {
            const index_t column = next * tile_width;
            if (t + 1 < tiles) next = tile_id[t + 1];
            while ((int)all + stages <= t) look();
            value_t* const to = ring + stage * tile_width;
            const unsigned bytes = min(tile_width, cols - column) * (unsigned)sizeof(value_t), whole = bytes & ~15u;
            if (lane == 0) {
                // What the copy engine's 16 bytes leave over at the end of x.
                for (unsigned i = whole / sizeof(value_t); i < bytes / sizeof(value_t); ++i) to[i] = x[column + i];
                const unsigned barrier = shared_address(full + stage);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(whole)
                             : "memory");
                const unsigned share = (whole / SPG_SHARERS + 15) & ~15u, from = rank * share;
                if (from < whole) {
                    const unsigned size = min(share, whole - from);
                    const unsigned target = shared_address(to) + from;
                    const char* source = reinterpret_cast<const char*>(x + column) + from;
#if SPG_SHARERS > 1
                    asm volatile(
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                        "[%0], [%1], %2, [%3], %4;" ::"r"(target),
                        "l"(source), "r"(size), "r"(barrier), "h"((unsigned short)((1u << SPG_SHARERS) - 1))
                        : "memory");
#else
                    asm volatile(
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                            target),
                        "l"(source), "r"(size), "r"(barrier)
                        : "memory");
#endif
                }
            }
            __syncwarp();
            if (++stage == stages) stage = 0;
        }
        // Other blocks may still wait for this one's warps.
        while (told < (unsigned)tiles) look();
    } else {
        int tile = 0, stage = 0;
        unsigned parity = 0;
        while (group < last_group) {
#pragma unroll
            for (int d = 0; d < SPG_DEPTH; ++d) {
                if (group >= last_group) break;
                const part_t now = part[d];
                __syncwarp();
                if (lane == 0) say_progress(progress + warp, now.span.x);
                load_part(part[d], group + SPG_DEPTH * takers, last_group, val, place, span);
                for (; tile <= now.span.y; ++tile) {
                    if (tile >= now.span.x)
                        while (!is_full(shared_address(full + stage), parity)) {}
                    if (++stage == stages) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
                add_part(now, ring, sums);
                group += takers;
            }
        }
        __syncwarp();
        if (lane == 0) say_progress(progress + warp, tiles);
    }
    cluster_arrive();  // no block ends while others may still write to it
    __syncthreads();
#else
    for (int i = threadIdx.x; i < rows + extras + 32; i += blockDim.x) sums[i] = 0;
    int stage = 0;
    for (int t = 0; t < tiles; ++t) {
        const index_t column = tile_id[t] * tile_width, width = min(tile_width, cols - column);
        __syncthreads();
        for (int i = threadIdx.x; i < width; i += blockDim.x) ring[stage * tile_width + i] = x[column + i];
        __syncthreads();
        for (; group < last_group && span[group].y <= t; group += warps) {
            part_t part;
            load_part(part, group, last_group, val, place, span);
            add_part(part, ring, sums);
        }
        if (++stage == stages) stage = 0;
    }
    __syncthreads();
#endif
    // Extra slots of one row are neighbours: a warp adds up those it has before it touches the row's own.
    for (int i = threadIdx.x; i - (int)(threadIdx.x & 31) < extras; i += blockDim.x) {
        const int lane = threadIdx.x & 31, target = i < extras ? extra_slot[extra + i] : -1;
        value_t sum = i < extras ? sums[rows + i] : 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            const int target_above = __shfl_down_sync(0xFFFFFFFFu, target, distance);
            const value_t sum_above = __shfl_down_sync(0xFFFFFFFFu, sum, distance);
            if (lane + distance < 32 && target_above == target) sum += sum_above;
        }
        const int target_below = __shfl_up_sync(0xFFFFFFFFu, target, 1);
        if (target >= 0 && (lane == 0 || target_below != target)) atomicAdd(sums + target, sum);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) y[row + i] = sums[i];
#ifdef SPG_COPY_ENGINE
    cluster_wait();
#endif
}
