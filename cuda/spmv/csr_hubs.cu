// csr-hubs: y = A x, A in CSR; what x has in the columns with the most entries comes from shared memory.
//
// Layout   CSR; of it col and row_ptr are read once, to make edge (below). x [cols], y [rows].
//          hub_x value_t [hubs]: x of the busiest columns, written and read in the launch. barrier: common/ordered.cuh.
// Mapping  a cooperative launch, one block per SM. The grid gathers x of the busiest columns side by side; then each
//          block copies all of them into its shared memory. Warps take chunks, which are about equally much work, for
//          themselves. A lane reads four entries in 16 bytes, one tile ahead. A row in several chunks is added up with
//          atomics, in y, which was zeroed there before the grid met.
// Wins     on skewed matrices: 44,032 of rmat18's 262,144 columns have 92 % of its entries. Their x costs no sector of
//          L2 and no look-up in L1, which does one line a cycle.
// Loses    4 bytes per nonzero for the second set of columns; where columns are alike, and on small matrices.
// Idea     degree-ordered gathers: Balaji and Lucia, "When is graph reordering an optimization?", IISWC 2018.
#include "../common/marked_rows.cuh"
#include "../common/ordered.cuh"
#include "../common/stream.cuh"

// Layout of the entries, in tiles of 128; work is cut into chunks of tiles:
//   edge         unsigned [128 tiles]: for each entry, its column's place in hub_x, or hubs + its column; the top bit
//                marks a row's last entry; 0 fills up the last tile
//   row_of       int32: the rows with entries, in that order; null where no row is empty
//   zeroed       int32 [zeroes]: the rows without entries, and those that are in several chunks
//   tile_begin   int32 [chunks + 1]
//   first_row    int32 [chunks]: the row (as counted in row_of) of a chunk's first entry

// Once per matrix: entries of each column; then places without marks, and the marks.
SPG_KERNEL hubs_count(long long nnz, const index_t* __restrict__ col, unsigned* count)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e < nnz) atomicAdd(count + col[e], 1u);
}

SPG_KERNEL hubs_places(long long places, long long nnz, index_t hubs, const index_t* __restrict__ col,
                       const index_t* __restrict__ place, unsigned* __restrict__ edge)
{
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= places) return;
    unsigned at = 0;
    if (e < nnz) {
        const index_t c = col[e], p = place[c];
        at = p >= 0 ? (unsigned)p : (unsigned)hubs + (unsigned)c;
    }
    edge[e] = at;
}

SPG_KERNEL hubs_ends(index_t rows, const offset_t* __restrict__ row_ptr, unsigned* edge)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && row_ptr[row + 1] > row_ptr[row]) edge[row_ptr[row + 1] - 1] |= LAST;
}

// A gather of x into v, unless what is wanted is there already. The predicate is in the load: no branch (stream.cuh).
#ifdef SPG_HOST
static inline void gather_unless(bool have, const value_t* p, value_t& v)
{
    if (!have) v = spg_gather(p);
}
#else
__device__ __forceinline__ void gather_unless(bool have, const float* p, float& v)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @!q ld.global.nc.f32 %0, [%1]; }"
                 : "+f"(v)
                 : "l"(p), "r"((int)have));
}
__device__ __forceinline__ void gather_unless(bool have, const double* p, double& v)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @!q ld.global.nc.f64 %0, [%1]; }"
                 : "+d"(v)
                 : "l"(p), "r"((int)have));
}
#endif

struct four_t {
    int4 at;
    value_t v[4];
};

// Entries 4 lane .. 4 lane + 3 of a tile. Only the last tile may have fewer than 128.
__device__ __forceinline__ four_t load_four(long long tile, long long nnz, const unsigned* edge, const value_t* val)
{
    const long long first = TILE * tile + 4 * (threadIdx.x % 32);
    four_t q;
    q.at = spg_stream(reinterpret_cast<const int4*>(edge + first));
    if (TILE * (tile + 1) <= nnz) {
        if constexpr (sizeof(value_t) == 4) {
            const float4 a = spg_stream(reinterpret_cast<const float4*>(val + first));
            q.v[0] = a.x, q.v[1] = a.y, q.v[2] = a.z, q.v[3] = a.w;
        } else {
            const double2 a = spg_stream(reinterpret_cast<const double2*>(val + first));
            const double2 b = spg_stream(reinterpret_cast<const double2*>(val + first) + 1);
            q.v[0] = a.x, q.v[1] = a.y, q.v[2] = b.x, q.v[3] = b.y;
        }
    } else {
#pragma unroll
        for (int u = 0; u < 4; ++u) q.v[u] = first + u < nnz ? val[first + u] : 0;
    }
    return q;
}

SPG_KERNEL __launch_bounds__(1024, 1)
    csr_hubs(long long nnz, index_t hubs, index_t chunks, index_t filled, const index_t* __restrict__ hub_col,
             const unsigned* __restrict__ edge, const value_t* __restrict__ val, const index_t* __restrict__ row_of,
             index_t zeroes, const index_t* __restrict__ zeroed, const index_t* __restrict__ tile_begin,
             const index_t* __restrict__ first_row, const value_t* __restrict__ x, value_t* hub_x, unsigned* barrier,
             value_t* y)
{
    SPG_DYNAMIC_SHARED(value_t, memory);  // x of the busiest columns, then sums of each warp
    value_t* const hub = memory;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr index_t UNIT = 16 / sizeof(value_t);
    marked_rows rows;
    // A place at least, which far lanes read: other warps write to their sums.
    rows.sums = memory + (hubs > 0 ? (hubs + UNIT - 1) / UNIT * UNIT : UNIT) + warp * SUMS;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    // Neighbouring chunks go to different SMs: rows of hubs are done faster than others.
    const long long first_chunk = (long long)warp * gridDim.x + blockIdx.x, warps = threads / 32;

    four_t next;
    if (first_chunk < chunks) next = load_four(tile_begin[first_chunk], nnz, edge, val);
    for (long long i = thread; i < hubs; i += threads) hub_x[i] = x[hub_col[i]];
    for (long long i = thread; i < zeroes; i += threads) y[zeroed[i]] = 0;
    grid_barrier(barrier);
    for (index_t i = UNIT * threadIdx.x; i < hubs / UNIT * UNIT; i += UNIT * blockDim.x)
        spg_copy_async<16>(hub + i, hub_x + i);
    spg_copy_commit();
    if (threadIdx.x < hubs % UNIT) {
        const index_t i = hubs / UNIT * UNIT + threadIdx.x;
        hub[i] = hub_x[i];
    }
    spg_copy_wait<0>();
    __syncthreads();

    const auto y_of = [&](index_t i) { return y + (row_of ? row_of[i] : i); };
    const auto put = [&](index_t i, value_t sum) { *y_of(i) = sum; };
    for (long long c = first_chunk; c < chunks; c += warps) {
        const index_t end = tile_begin[c + 1], first = first_row[c];
        index_t tile = tile_begin[c];
        const bool comes_in = tile > 0 && !(edge[(long long)TILE * tile - 1] & LAST);
        rows.begin(first, comes_in);
        if (c != first_chunk) next = load_four(tile, nnz, edge, val);
        unsigned newest = 0;
        for (; tile < end; ++tile) {
            const four_t q = next;
            if (tile + 1 < end) next = load_four(tile + 1, nnz, edge, val);
            const unsigned e[4] = {(unsigned)q.at.x, (unsigned)q.at.y, (unsigned)q.at.z, (unsigned)q.at.w};
            value_t v[4];
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                // From shared or from global memory, without a branch, so that all loads of a lane are in flight.
                const unsigned at = e[u] & ~LAST;
                const bool near = at < (unsigned)hubs;
                v[u] = hub[near ? at : 0];
                gather_unless(near, x + (long long)at - hubs, v[u]);
            }
#pragma unroll
            for (int u = 0; u < 4; ++u) v[u] *= q.v[u];
            rows.add(e, v, put);
            newest = e[3];
        }
        rows.finish(put);
        const bool goes_on = !(__shfl_sync(SPG_FULL_WARP, newest, 31) & LAST) && rows.row < filled;
        if (comes_in) {
            const value_t piece = rows.piece();
            if (lane == 0) atomicAdd(y_of(first), piece);
        }
        if (goes_on && !rows.inside()) {
            const value_t open = warp_sum(rows.open);
            if (lane == 0) atomicAdd(y_of(rows.row), open);
        }
    }
}
