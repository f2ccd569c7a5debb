// binned.cu: y = A x by propagation blocking, in two kernels that count as one SpMV.
//
// Layout   see formats/binned.py. Slots come in groups of 8 with one destination.
// Mapping  multiply: an equal share of the groups for every block; two neighbouring threads take a group, four slots (a
//          quad) each, so that all loads and stores of a warp are contiguous. sum: a block per bin, some threads per
//          row.
// Bytes    float32: multiply reads 4 (value) + 2 (column) + 0.5 (destination) and writes 4 (product) a slot; sum
//          reads 4 + 2 (position): 16.5 in all, against 8 + 32 for a gather that finds nothing in L1.
// Wins     where x does not fit in L1 and columns are random.
// Loses    where columns are local (banded, meshes), where a gather costs next to nothing, and on small matrices, for
//          its two launches.
// Idea     Beamer, Asanovic and Patterson, "Reducing PageRank communication via propagation blocking", IPDPS 2017
//          (CPU). Differences: destinations are fixed when packing, so no bin is filled with atomics, and a product
//          finds its row by a 16-bit position instead of carrying its row along.
#include "quad.cuh"

// SPG_STAGES: quads that a thread of the multiply kernel has in flight, less one.
#ifndef SPG_STAGES
#error "the host function defines SPG_STAGES"
#endif
// Why two kernels.
// What a gather of x costs on a matrix without locality is not bytes of DRAM but sectors of L2: each of the
// nnz reads moves 32 bytes through the L2 for 4 that are used, at about 4.6 TB/s on an H200. Here no gather
// leaves an SM. The first kernel keeps a tile of x in shared memory and multiplies all nonzeros of the tile's
// columns; the second adds up the products of a bin of rows, also in shared memory. What passes between them
// is streamed, in 16-byte accesses.

// Quads that a thread of the sum kernel loads before it uses the first.
constexpr int DEPTH = 2;

// Multiply: block b takes groups [groups * b / blocks, groups * (b + 1) / blocks), whatever tiles they are in.
// Every block does the same work; most see one or two tiles.
//
// The tile leaves room for one block on an SM, so loads must be in flight all the time: each thread copies its
// next quads into its own slots of shared memory (cp.async: no registers, no waiting) while it multiplies. It
// reads only what it copied itself, so no barrier is needed.
SPG_KERNEL __launch_bounds__(1024)
    binned_multiply(index_t groups, index_t cols, index_t tile_width, index_t tiles,
                    const index_t* __restrict__ tile_start, const value_quad* __restrict__ val,
                    const ushort4* __restrict__ col, const index_t* __restrict__ dest, const value_t* __restrict__ x,
                    value_quad* __restrict__ product, const index_t* __restrict__ split_row, index_t split_rows,
                    value_t* y)
{
    SPG_DYNAMIC_SHARED(value_quad, shared);
    const int threads = blockDim.x, thread = threadIdx.x;
    // Slots [stage][thread] of values, columns and destinations, then the tile.
    value_quad* val_slot = shared + thread;
    ushort4* col_slot = reinterpret_cast<ushort4*>(shared + SPG_STAGES * threads) + thread;
    index_t* dest_slot = reinterpret_cast<index_t*>(col_slot - thread + SPG_STAGES * threads) + thread;
    value_t* tile = reinterpret_cast<value_t*>(dest_slot - thread + SPG_STAGES * threads);

    index_t first = static_cast<index_t>(static_cast<long long>(groups) * blockIdx.x / gridDim.x);
    const index_t last = static_cast<index_t>(static_cast<long long>(groups) * (blockIdx.x + 1) / gridDim.x);

    // Rows that are in several bins are added up with atomics, by the next kernel.
    for (index_t i = blockIdx.x * threads + thread; i < split_rows; i += gridDim.x * threads) y[split_row[i]] = 0;

    // The tile that holds group `first`: the last one that starts at or before it.
    index_t low = 0, high = tiles;
    while (high - low > 1) {
        const index_t middle = (low + high) / 2;
        if (tile_start[middle] <= first)
            low = middle;
        else
            high = middle;
    }
    for (index_t t = low; first < last; ++t) {
        const index_t end = min(last, tile_start[t + 1]);
        if (end <= first) continue;
        // This thread's quads in this tile: from, from + threads, ... The step is even, so all have one parity.
        const long long from = 2LL * first + thread;
        const int count = from < 2LL * end ? static_cast<int>((2LL * end - from + threads - 1) / threads) : 0;
        auto fetch = [&](int k) {
            if (k < count) {
                const long long q = from + static_cast<long long>(k) * threads;
                const int slot = k % SPG_STAGES * threads;
                spg_copy_async<16>(val_slot + slot, val + q);
                if constexpr (sizeof(value_quad) == 32)
                    spg_copy_async<16>(reinterpret_cast<char*>(val_slot + slot) + 16,
                                       reinterpret_cast<const char*>(val + q) + 16);
                spg_copy_async<8>(col_slot + slot, col + q);
                spg_copy_async<4>(dest_slot + slot, dest + (q >> 1));
            }
            spg_copy_commit();  // an empty group counts too: group k is quad k
        };
        for (int k = 0; k < SPG_STAGES - 1; ++k) fetch(k);

        const index_t begin = t * tile_width;
        const index_t width = min(tile_width, cols - begin);
        __syncthreads();
        for (index_t i = thread; i < width; i += threads) tile[i] = x[begin + i];
        __syncthreads();

        for (int k = 0; k < count; ++k) {
            fetch(k + SPG_STAGES - 1);
            spg_copy_wait<SPG_STAGES - 1>();
            const int slot = k % SPG_STAGES * threads;
            value_quad a = val_slot[slot];
            const ushort4 c = col_slot[slot];
            const long long to = 2LL * dest_slot[slot] + (from & 1);
            a.at[0] *= tile[c.x];
            a.at[1] *= tile[c.y];
            a.at[2] *= tile[c.z];
            a.at[3] *= tile[c.w];
            product[to] = a;
        }
        spg_copy_wait<0>();
        first = end;
    }
}

// Sum: a block per bin. The products are spread to their places in row order, then 2^bin_lanes threads add up
// each row. The class of lengths is the same for all rows of a bin, so the threads of a warp keep in step.
SPG_KERNEL __launch_bounds__(256, SPG_RESIDENT(1536) / 256)
    binned_sum(const index_t* __restrict__ bin_group, const index_t* __restrict__ bin_row,
               const index_t* __restrict__ bin_lanes, const value_quad* __restrict__ product,
               const ushort4* __restrict__ pos, const index_t* __restrict__ row_id,
               const unsigned short* __restrict__ row_start, value_t* y)
{
    SPG_DYNAMIC_SHARED(value_t, sorted);
    const unsigned short hole = 0xFFFF;
    const index_t bin = blockIdx.x;
    const index_t base = bin_row[bin];
    const index_t rows = bin_row[bin + 1] - base;
    const unsigned short* start = row_start + base + bin;  // each bin before has one closing entry
    const int shift = bin_lanes[bin];
    const int lanes = 1 << shift;
    const int lane = threadIdx.x & (lanes - 1);
    const index_t together = blockDim.x >> shift;
    // The first row of each thread is looked up before its products arrive, not after.
    index_t r = threadIdx.x >> shift;
    int from = 0, to = 0;
    index_t row = 0;
    if (r < rows) {
        from = start[r];
        to = start[r + 1];
        row = row_id[base + r];
    }

    const long long stop = 2LL * bin_group[bin + 1];
    const long long step = blockDim.x;
    long long q = 2LL * bin_group[bin] + threadIdx.x;
    for (; q + (DEPTH - 1) * step < stop; q += DEPTH * step) {
        value_quad p[DEPTH];
        ushort4 at[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            p[k] = stream_quad(product + q + k * step);
            at[k] = spg_stream(pos + q + k * step);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            if (at[k].x != hole) sorted[at[k].x] = p[k].at[0];
            if (at[k].y != hole) sorted[at[k].y] = p[k].at[1];
            if (at[k].z != hole) sorted[at[k].z] = p[k].at[2];
            if (at[k].w != hole) sorted[at[k].w] = p[k].at[3];
        }
    }
    for (; q < stop; q += step) {
        const value_quad p = product[q];
        const ushort4 at = pos[q];
        if (at.x != hole) sorted[at.x] = p.at[0];
        if (at.y != hole) sorted[at.y] = p.at[1];
        if (at.z != hole) sorted[at.z] = p.at[2];
        if (at.w != hole) sorted[at.w] = p.at[3];
    }
    __syncthreads();

    // All lanes of a warp go round the same number of times: the shuffles need them.
    for (index_t round = 0; round < rows; round += together) {
        value_t sum = 0;
        for (int i = from + lane; i < to; i += lanes) sum += sorted[i];
        const bool mine = r < rows && lane == 0;
        const index_t target = row;
        r += together;
        from = to = 0;
        if (r < rows) {
            from = start[r];
            to = start[r + 1];
            row = row_id[base + r];
        }
        for (int offset = lanes / 2; offset > 0; offset /= 2)
            sum += __shfl_down_sync(SPG_FULL_WARP, sum, offset, lanes);
        if (mine) {
            if (target >= 0)
                y[target] = sum;
            else
                atomicAdd(&y[~target], sum);
        }
    }
}
