// binned_fused.cu: y = A x by propagation blocking, in one launch whose products never leave the L2.
//
// binned.cu is bound by DRAM, where half of what it moves are products: written by its first kernel, read by its
// second. Here the rows come in chunks, small enough for the products of a few of them to stay in the L2. Half of a
// block's warps multiply one chunk while the other half add up the products of the chunk before, so that loads are
// under way all the time, and no block waits for the slowest one at a barrier of the whole grid.
//
// Layout   see formats/binned_chunks.py. As in binned.cu, slots come in groups of 8 with one destination; two
//          neighbouring threads take a group, four slots (a quad) each.
//          product four_t [buffers][2 * most_groups]: chunk c is in buffer c mod `buffers`.
//          flags unsigned [2 * chunks + 1], zero before and after: blocks that have multiplied, and added up, chunk c;
//          blocks that are done.
// Mapping  a cooperative launch, one block on an SM. Block b keeps the columns of tiles b, b + grid, ... of x in
//          shared memory (with as many SMs as tiles: one tile, for the whole launch), and multiplies their entries,
//          chunk after chunk; it adds up every grid-th bin of rows of a chunk.
// Bytes    float32: 4 (value) + 2 (column) + 0.5 (destination) + 2 (position) a slot from DRAM, 8 more (the product,
//          there and back) that meet in the L2: 16.5 in all there. A CSR kernel moves 8 from DRAM and 32 (the sector
//          that a gather of x takes) through the L2.
// Wins     where x does not fit in L1 and columns jump.
// Loses    where columns are local, and on small matrices.
// Idea     Beamer, Asanovic and Patterson, "Reducing PageRank communication via propagation blocking", IPDPS 2017;
//          chunks, and two teams that hand them over by counters, are ours.
#include "../common/stream.cuh"
#include "../graph/sync.cuh"

// Quads that a multiplying thread has under way, less one.
#ifndef SPG_STAGES
#define SPG_STAGES 4
#endif
#ifndef SPG_BLOCK
#define SPG_BLOCK 1024
#endif
// Quads of a bin that an adding thread loads at once; with 512 threads a bin of 8,192 slots.
#ifndef SPG_DEPTH
#define SPG_DEPTH 4
#endif

// Four values, loaded and stored 16 bytes at a time.
struct __align__(16) four_t {
    value_t v[4];
};

// The L2 answers, never a line of L1 that is older than the product: others write it during this launch.
__device__ __forceinline__ four_t load_product(const four_t* p)
{
    four_t r;
    if constexpr (sizeof(value_t) == 4) {
        const float4 a = __ldcg(reinterpret_cast<const float4*>(p));
        r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
    } else {
        const double2 a = __ldcg(reinterpret_cast<const double2*>(p));
        const double2 b = __ldcg(reinterpret_cast<const double2*>(p) + 1);
        r.v[0] = a.x, r.v[1] = a.y, r.v[2] = b.x, r.v[3] = b.y;
    }
    return r;
}

// A barrier for one of the two teams. `meeting` is its word in shared memory, for the host device.
__device__ __forceinline__ void team_barrier(int team, int threads, unsigned* meeting)
{
#ifdef SPG_HOST
    const unsigned all = (atomicAdd(meeting + team, 1u) / threads + 1) * threads;
    while ((int)(load_acquire(meeting + team) - all) < 0) {
    }
#else
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(threads) : "memory");
#endif
}

// Waits until all blocks have said so, and makes what they wrote before visible to the whole team.
__device__ __forceinline__ void wait_for_all(const unsigned* flag, int team, int threads, int thread, unsigned* meeting)
{
    if (thread == 0)
        while (load_acquire(flag) < gridDim.x) {
        }
    team_barrier(team, threads, meeting);
}

// Says that this block's team is done with a chunk.
__device__ __forceinline__ void say_done(unsigned* flag, int team, int threads, int thread, unsigned* meeting)
{
    team_barrier(team, threads, meeting);
    if (thread == 0) add_release(flag, 1);
}

// A multiplying thread's way through its quads: tiles blockIdx.x, blockIdx.x + gridDim.x, ... of chunk 0, 1, ...
struct quads_t {
    const index_t* __restrict__ start;
    long long quad, end;
    int chunk, tile, chunks, tiles, thread, threads;

    __device__ __forceinline__ void enter()
    {
        while (chunk < chunks) {
            const index_t* bounds = start + (long long)chunk * tiles + tile;
            quad = 2LL * bounds[0] + thread;
            end = 2LL * bounds[1];
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

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
binned_fused(int chunks, int tiles, int buffers, index_t most_groups, index_t widest,
             const index_t* __restrict__ tile_col, const index_t* __restrict__ start,
             const four_t* __restrict__ val, const ushort4* __restrict__ col, const index_t* __restrict__ dest,
             const index_t* __restrict__ chunk_bin, const index_t* __restrict__ bin_group,
             const index_t* __restrict__ bin_row, const index_t* __restrict__ bin_lanes,
             const ushort4* __restrict__ pos, const index_t* __restrict__ row_id,
             const unsigned short* __restrict__ row_start, const index_t* __restrict__ split_row, index_t split_rows,
             const value_t* __restrict__ x, four_t* product, unsigned* flags, value_t* y)
{
    SPG_DYNAMIC_SHARED(four_t, shared);
    SPG_SHARED(unsigned, meeting, 2);
    const int threads = blockDim.x / 2, thread = threadIdx.x % threads;
    unsigned* const multiplied = flags;
    unsigned* const added = flags + chunks;
    // Slots [stage][thread] of values, columns and destinations; a tile; a bin.
    four_t* const val_slot = shared + thread;
    ushort4* const col_slot = reinterpret_cast<ushort4*>(shared + SPG_STAGES * threads) + thread;
    index_t* const dest_slot = reinterpret_cast<index_t*>(col_slot - thread + SPG_STAGES * threads) + thread;
    value_t* const tile = reinterpret_cast<value_t*>(dest_slot - thread + SPG_STAGES * threads);
    value_t* const sorted = tile + widest;
#ifdef SPG_HOST
    if (threadIdx.x < 2) meeting[threadIdx.x] = 0;
    __syncthreads();
#endif
    // Rows that lie in several bins are added up with atomics. Whoever adds has waited for all who multiply.
    if (threadIdx.x < threads)
        for (index_t i = blockIdx.x * threads + thread; i < split_rows; i += gridDim.x * threads) y[split_row[i]] = 0;

    if (threadIdx.x < threads) {
        quads_t ahead{start, 0, 0, 0, (int)blockIdx.x, chunks, tiles, thread, threads};
        if ((int)blockIdx.x >= tiles) ahead.chunk = chunks;
        ahead.enter();
        int put = 0;
        // Copies the next quad into this thread's own slots. It reads only what it copied itself: no barrier.
        const auto fetch = [&] {
            if (ahead.chunk < chunks) {
                const int slot = put * threads;
                spg_copy_async<16>(val_slot + slot, val + ahead.quad);
                if constexpr (sizeof(four_t) == 32)
                    spg_copy_async<16>(reinterpret_cast<char*>(val_slot + slot) + 16,
                                       reinterpret_cast<const char*>(val + ahead.quad) + 16);
                spg_copy_async<8>(col_slot + slot, col + ahead.quad);
                spg_copy_async<4>(dest_slot + slot, dest + (ahead.quad >> 1));
                ahead.step();
            }
            put = put + 1 == SPG_STAGES ? 0 : put + 1;
            spg_copy_commit();
        };
        for (int k = 0; k < SPG_STAGES - 1; ++k) fetch();
        int take = 0, resident = -1;
        for (int c = 0; c < chunks; ++c) {
            four_t* const target = product + (long long)(c % buffers) * 2 * most_groups;
            if (c >= buffers) wait_for_all(added + c - buffers, 0, threads, thread, meeting);
            for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
                if (t != resident) {
                    const index_t begin = tile_col[t], width = tile_col[t + 1] - begin;
                    team_barrier(0, threads, meeting);
                    for (index_t i = thread; i < width; i += threads) tile[i] = x[begin + i];
                    team_barrier(0, threads, meeting);
                    resident = t;
                }
                const index_t* const bounds = start + (long long)c * tiles + t;
                const long long end = 2LL * bounds[1];
                for (long long quad = 2LL * bounds[0] + thread; quad < end; quad += threads) {
                    fetch();
                    spg_copy_wait<SPG_STAGES - 1>();
                    const int slot = take * threads;
                    four_t a = val_slot[slot];
                    const ushort4 at = col_slot[slot];
                    const long long to = 2LL * dest_slot[slot] + (quad & 1);
                    a.v[0] *= tile[at.x];
                    a.v[1] *= tile[at.y];
                    a.v[2] *= tile[at.z];
                    a.v[3] *= tile[at.w];
                    target[to] = a;
                    take = take + 1 == SPG_STAGES ? 0 : take + 1;
                }
            }
            say_done(multiplied + c, 0, threads, thread, meeting);
        }
        spg_copy_wait<0>();
    } else {
        const unsigned short hole = 0xFFFF;
        for (int c = 0; c < chunks; ++c) {
            const four_t* const source = product + (long long)(c % buffers) * 2 * most_groups;
            const index_t first_bin = chunk_bin[c], last_bin = chunk_bin[c + 1];
            const index_t base = bin_group[first_bin];
            bool waited = false;
            for (index_t bin = first_bin + blockIdx.x; bin < last_bin; bin += gridDim.x) {
                // All that does not depend on products is asked for before they are there.
                const long long from_quad = 2LL * bin_group[bin], stop = 2LL * bin_group[bin + 1];
                const index_t first_row = bin_row[bin], rows = bin_row[bin + 1] - first_row;
                const int shift = bin_lanes[bin], lanes = 1 << shift;
                ushort4 at[SPG_DEPTH];
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k) {
                    const long long q = from_quad + thread + k * threads;
                    at[k] = make_ushort4(hole, hole, hole, hole);
                    if (q < stop) at[k] = spg_stream(pos + q);
                }
                const unsigned short* const begin = row_start + first_row + bin;  // bins before have a closing entry
                const int lane = threadIdx.x & (lanes - 1);
                const index_t together = threads >> shift;
                index_t r = thread >> shift;
                int from = 0, to = 0;
                index_t row = 0;
                if (r < rows) {
                    from = begin[r];
                    to = begin[r + 1];
                    row = row_id[first_row + r];
                }
                if (!waited) wait_for_all(multiplied + c, 1, threads, thread, meeting);
                waited = true;
                four_t p[SPG_DEPTH];
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k) {
                    const long long q = from_quad + thread + k * threads;
                    if (q < stop) p[k] = load_product(source + (q - 2LL * base));
                }
#pragma unroll
                for (int k = 0; k < SPG_DEPTH; ++k) {
                    if (at[k].x != hole) sorted[at[k].x] = p[k].v[0];
                    if (at[k].y != hole) sorted[at[k].y] = p[k].v[1];
                    if (at[k].z != hole) sorted[at[k].z] = p[k].v[2];
                    if (at[k].w != hole) sorted[at[k].w] = p[k].v[3];
                }
                for (long long q = from_quad + thread + SPG_DEPTH * threads; q < stop; q += threads) {
                    const four_t more = load_product(source + (q - 2LL * base));
                    const ushort4 where = pos[q];
                    if (where.x != hole) sorted[where.x] = more.v[0];
                    if (where.y != hole) sorted[where.y] = more.v[1];
                    if (where.z != hole) sorted[where.z] = more.v[2];
                    if (where.w != hole) sorted[where.w] = more.v[3];
                }
                team_barrier(1, threads, meeting);
                // All lanes of a warp go round the same number of times: the shuffles need them.
                for (index_t round = 0; round < rows; round += together) {
                    value_t sum = 0;
                    for (int i = from + lane; i < to; i += lanes) sum += sorted[i];
                    const bool mine = r < rows && lane == 0;
                    const index_t target = row;
                    r += together;
                    from = to = 0;
                    if (r < rows) {
                        from = begin[r];
                        to = begin[r + 1];
                        row = row_id[first_row + r];
                    }
                    for (int offset = lanes / 2; offset > 0; offset /= 2)
                        sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset, lanes);
                    if (mine) {
                        if (target >= 0)
                            y[target] = sum;
                        else
                            atomicAdd(&y[~target], sum);
                    }
                }
                team_barrier(1, threads, meeting);  // the bin's place is free again, and its products are read
            }
            if (thread == 0) add_release(added + c, 1);
        }
    }
    // The last block leaves the counters as it found them.
    __syncthreads();
    if (threadIdx.x == 0 && add_release(flags + 2 * chunks, 1) == gridDim.x - 1)
        for (int i = 0; i <= 2 * chunks; ++i) flags[i] = 0;
}
