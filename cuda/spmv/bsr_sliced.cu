// bsr-sliced: y = A x, A in blocks interleaved over slices of 32 block rows, a thread per block row.
//
// Layout   slice_ptr offset_t [slices + 1] (in places); length SPG_LENGTH [block rows]; base int32 [slices];
//          block_col SPG_COLUMN [places], from the base of its slice on; wide [places * WIDE], units of
//          16 bytes; rest [places * REST], the elements of each block that fill no unit; x, y. Order: below.
// Mapping  a warp takes a slice, a lane a block row. In step k the lanes that have a k-th block are counted by
//          a ballot, which gives each its place: every read of a warp is one piece of up to 512 bytes, and
//          there is no padding. SPG_AHEAD blocks of a lane are read before the first is used.
// Wins     where the pattern comes in small dense blocks (meshes with several unknowns a node): for 3 x 3
//          blocks 38 bytes per 9 nonzeros instead of CSR's 72, at the speed of a plain copy.
// Loses    where block rows of one slice differ much in length (lanes wait; no bytes are lost), and where
//          blocks are badly filled.
// Idea     BSR as in SPARSITY (Im and Yelick, ICCS 2001) in the order of SELL (Kreutzer et al., SIAM J. Sci.
//          Comput. 2014); places by ballot instead of padding.
#include "../common/stream.cuh"

// SPG_COLUMN, SPG_LENGTH: types of a column within its slice and of the length of a block row, as short as the matrix
// allows.
#if !defined(SPG_ROWS) || !defined(SPG_COLS) || !defined(SPG_BLOCK) || !defined(SPG_AHEAD) || !defined(SPG_COLUMN) || \
    !defined(SPG_LENGTH)
#error "the host function defines SPG_ROWS, SPG_COLS, SPG_BLOCK, SPG_AHEAD, SPG_COLUMN and SPG_LENGTH"
#endif

// Order within a slice of blocks of SPG_ROWS x SPG_COLS. Blocks are stored by their place k in their block row, then by
// lane: a run holds the k-th blocks of all block rows that have one. Of a run of n blocks from place s on, unit q of
// the block that comes l-th is at s * WIDE + q * n + l, element e of its rest at s * REST + e * n + l. Slices begin at
// multiples of 8 places: see formats/bsr.py.

constexpr int SIZE = SPG_ROWS * SPG_COLS;
constexpr int UNIT = 16 / (int)sizeof(value_t);  // elements of 16 bytes
constexpr int WIDE = SIZE / UNIT, REST = SIZE % UNIT;

struct block_t {
    index_t col;
    value_t at[SIZE];
};

__device__ __forceinline__ void read_unit(const float* p, float* to)
{
    const float4 r = spg_stream(reinterpret_cast<const float4*>(p));
    to[0] = r.x, to[1] = r.y, to[2] = r.z, to[3] = r.w;
}
__device__ __forceinline__ void read_unit(const double* p, double* to)
{
    const double2 r = spg_stream(reinterpret_cast<const double2*>(p));
    to[0] = r.x, to[1] = r.y;
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK)
    bsr_sliced(index_t rows, index_t cols, const offset_t* __restrict__ slice_ptr,
               const SPG_LENGTH* __restrict__ lengths, const index_t* __restrict__ bases,
               const SPG_COLUMN* __restrict__ block_col, const value_t* __restrict__ wide,
               const value_t* __restrict__ rest, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    SPG_SHARED(value_t, turned, SPG_BLOCK * SPG_ROWS);
    const int lane = threadIdx.x % 32;
    const long long block_row = (long long)blockIdx.x * SPG_BLOCK + threadIdx.x;
    const long long slice = block_row - lane;  // its first block row
    const long long block_rows = ((long long)rows + SPG_ROWS - 1) / SPG_ROWS;
    if (slice >= block_rows) return;  // whole warps only
    long long run = slice_ptr[slice / 32];  // its first block
    const index_t base = bases[slice / 32];
    int length = 0;  // lanes beyond the last block row stay, with nothing: all 32 meet in the ballots
    if (block_row < block_rows) length = (int)lengths[block_row];

    value_t sum[SPG_ROWS] = {};
    unsigned have = __ballot_sync(SPG_FULL_WARP, length > 0);
    for (int k = 0; have != 0; k += SPG_AHEAD) {
        block_t block[SPG_AHEAD];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) {
            const int count = __popc(have);
            if (length > k + u) {
                const int place = __popc(have & ((1u << lane) - 1));
                block[u].col = base + (index_t)spg_stream(block_col + run + place);
                const value_t* unit = wide + (run * WIDE + place) * UNIT;
#pragma unroll
                for (int q = 0; q < WIDE; ++q) read_unit(unit + (long long)q * count * UNIT, block[u].at + q * UNIT);
#pragma unroll
                for (int e = 0; e < REST; ++e)
                    block[u].at[WIDE * UNIT + e] = spg_stream(rest + run * REST + e * count + place);
            }
            run += count;
            have = __ballot_sync(SPG_FULL_WARP, length > k + u + 1);
        }
        value_t factor[SPG_AHEAD][SPG_COLS];
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) {
            // Where the last block reaches beyond the matrix, its fill meets the last column instead.
            const index_t first = length > k + u ? block[u].col * SPG_COLS : 0;
            const index_t last = cols - 1 - first;
#pragma unroll
            for (int j = 0; j < SPG_COLS; ++j) factor[u][j] = length > k + u ? x[first + (j < last ? j : last)] : 0;
        }
#pragma unroll
        for (int u = 0; u < SPG_AHEAD; ++u) {
            if (length <= k + u) continue;
#pragma unroll
            for (int i = 0; i < SPG_ROWS; ++i)
#pragma unroll
                for (int j = 0; j < SPG_COLS; ++j) sum[i] += block[u].at[i * SPG_COLS + j] * factor[u][j];
        }
    }

    // Turned round in shared memory, so that a warp writes y in runs of 32.
    value_t* mine = turned + (threadIdx.x - lane) * SPG_ROWS;
#pragma unroll
    for (int i = 0; i < SPG_ROWS; ++i) mine[lane * SPG_ROWS + i] = sum[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SPG_ROWS; ++i) {
        const long long row = slice * SPG_ROWS + i * 32 + lane;
        if (row < rows) y[row] = mine[i * 32 + lane];
    }
}
