// blocked-ell: Y = A X on tensor cores, A in blocks of SPG_SIDE x SPG_SIDE half-precision values.
//
// Layout   block_col int32 [block rows][width], -1 from a block row's last block on; block_val half
//          [block rows][width][SPG_SIDE][SPG_SIDE], blocks filled up with 0.
//          Row-major: x half [cols][k], y float [rows][k]. Column-major (SPG_COLUMN_MAJOR): x [k][cols], y [k][rows].
// Mapping  A warp takes a block row and 16 * SPG_FRAGMENTS columns of Y, whose sums it keeps in float32 fragments. For
//          every 16 columns of A it stages 16 rows of its piece of X in shared memory of its own (16 bytes a load where
//          k, or cols if column-major, is a multiple of 8; zeros beyond the edges), while the next 16 are already on
//          their way in registers, and their 16 columns of A too; then SPG_SIDE / 16 * SPG_FRAGMENTS products of 16 x
//          16 x 16. Blocks of A are read once by each warp, as whole lines. Neighbouring warps take neighbouring
//          columns of one block row, so that A comes out of L1.
// Wins     where 16 x 16 blocks are well filled: a block takes one instruction where csr-row takes up to 256 rows of X.
// Loses    on everything else: a block costs 512 bytes and 4,096 multiply-adds a fragment whatever is in it.
// Idea     NVIDIA, "Accelerating matrix multiplication with block sparse format and tensor cores", 2021; wmma:
//          CUDA C++ programming guide.
#include <cuda_fp16.h>
#include <mma.h>

#include "../common/spg.cuh"

// SPG_WIDE_X: rows (columns) of X begin at multiples of 16 bytes; SPG_WIDE_Y: those of Y at multiples of 32.
#if !defined(SPG_SIDE) || !defined(SPG_FRAGMENTS) || !defined(SPG_WARPS) || !defined(SPG_WIDE_X) || \
    !defined(SPG_WIDE_Y) || !defined(SPG_COLUMN_MAJOR)
#error "the host function defines SPG_SIDE, SPG_FRAGMENTS, SPG_WARPS, SPG_WIDE_X, SPG_WIDE_Y and SPG_COLUMN_MAJOR"
#endif
#define SPG_HALVES (SPG_SIDE / 16)
#define SPG_WIDTH (16 * SPG_FRAGMENTS)

// Numbers  Products of halves are exact in float32; sums are float32, cut off rather than rounded by the hardware
//          (see problems/summation.py for the bound).

using namespace nvcuda;

// Eight halves, one load.
union eight_t {
    uint4 all;
    unsigned short one[8];
};

#if SPG_COLUMN_MAJOR
typedef wmma::col_major x_order;
#define SPG_PITCH (16 + 8)  // halves from one column of the staged tile to the next: 8 more, for the banks
#define SPG_TILE_EIGHTS (SPG_WIDTH * SPG_PITCH / 8)
#else
typedef wmma::row_major x_order;
#define SPG_PITCH (SPG_WIDTH + 8)
#define SPG_TILE_EIGHTS (16 * SPG_PITCH / 8)
#endif
#define SPG_OUT_PITCH 20  // floats from one row of the staged 16 x 16 of Y to the next
#define SPG_OUT_EIGHTS (16 * SPG_OUT_PITCH / 4)

struct __align__(32) stage_t {  // of one warp: a tile of X, in the end a piece of Y
    uint4 eights[SPG_TILE_EIGHTS > SPG_OUT_EIGHTS ? SPG_TILE_EIGHTS : SPG_OUT_EIGHTS];
};

// A warp's tile of X: rows top to top + 16, columns left to left + SPG_WIDTH. Lane l holds eights l, l + 32, ...
struct tile_t {
    eight_t part[SPG_FRAGMENTS];

    __device__ __forceinline__ void load(const half* x, index_t cols, index_t k, long long top, index_t left)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < SPG_FRAGMENTS; ++i) {
            const int at = i * 32 + lane;
#if SPG_COLUMN_MAJOR
            const long long row = top + at % 2 * 8, line = left + at / 2;
            const long long inside = line < k ? cols - row : 0;  // how many of the eight exist
            const half* from = x + line * cols + row;
#else
            const long long row = top + at / (2 * SPG_FRAGMENTS);
            const index_t column = left + at % (2 * SPG_FRAGMENTS) * 8;
            const long long inside = row < cols ? k - column : 0;
            const half* from = x + row * k + column;
#endif
            part[i].all = make_uint4(0, 0, 0, 0);
#if SPG_WIDE_X
            if (inside > 0) part[i].all = *reinterpret_cast<const uint4*>(from);
#else
#pragma unroll
            for (int j = 0; j < 8; ++j)
                if (j < inside) part[i].one[j] = __half_as_ushort(from[j]);
#endif
        }
    }
    __device__ __forceinline__ void stage(uint4* eights) const
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < SPG_FRAGMENTS; ++i) {
            const int at = i * 32 + lane;
#if SPG_COLUMN_MAJOR
            eights[at / 2 * (SPG_PITCH / 8) + at % 2] = part[i].all;
#else
            eights[at / (2 * SPG_FRAGMENTS) * (SPG_PITCH / 8) + at % (2 * SPG_FRAGMENTS)] = part[i].all;
#endif
        }
    }
};

// 16 columns of a block of A, all its rows.
struct half_column_t {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> part[SPG_HALVES];

    __device__ __forceinline__ void load(const half* from)
    {
#pragma unroll
        for (int i = 0; i < SPG_HALVES; ++i) wmma::load_matrix_sync(part[i], from + i * 16 * SPG_SIDE, SPG_SIDE);
    }
};

SPG_KERNEL __launch_bounds__(32 * SPG_WARPS)
    blocked_ell(index_t rows, index_t cols, index_t k, index_t width, const index_t* __restrict__ block_col,
                const half* __restrict__ block_val, const half* __restrict__ x, float* __restrict__ y)
{
    SPG_SHARED(stage_t, stages, SPG_WARPS);
    uint4* stage = stages[threadIdx.x / 32].eights;
    const int lane = threadIdx.x % 32;
    const index_t across = (k + SPG_WIDTH - 1) / SPG_WIDTH;
    const long long warp = (long long)blockIdx.x * SPG_WARPS + threadIdx.x / 32;
    const long long block_row = warp / across;
    const index_t left = (index_t)(warp % across) * SPG_WIDTH;
    if (block_row * SPG_SIDE >= rows) return;  // the whole warp; nothing below needs other warps
    block_col += block_row * width;
    block_val += block_row * width * (SPG_SIDE * SPG_SIDE);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[SPG_HALVES][SPG_FRAGMENTS];
#pragma unroll
    for (int h = 0; h < SPG_HALVES; ++h)
#pragma unroll
        for (int f = 0; f < SPG_FRAGMENTS; ++f) wmma::fill_fragment(sum[h][f], 0.0f);

    // A step is 16 columns of A: column h of 16 of the block in `slot`. What the next step needs is on its way
    // before the products of this one.
    tile_t tile;
    half_column_t a, ahead;
    index_t now = width > 0 ? block_col[0] : -1;
    if (now >= 0) {
        tile.load(x, cols, k, (long long)now * SPG_SIDE, left);
        a.load(block_val);
    }
    for (index_t slot = 0; now >= 0; ++slot) {
        const index_t next = slot + 1 < width ? block_col[slot + 1] : -1;
#pragma unroll
        for (int h = 0; h < SPG_HALVES; ++h) {
            __syncwarp();  // the tile before has been read
            tile.stage(stage);
            __syncwarp();
            const half* block = block_val + (long long)slot * (SPG_SIDE * SPG_SIDE);
            if (h + 1 < SPG_HALVES) {
                tile.load(x, cols, k, (long long)now * SPG_SIDE + 16 * (h + 1), left);
                ahead.load(block + 16 * (h + 1));
            } else if (next >= 0) {
                tile.load(x, cols, k, (long long)next * SPG_SIDE, left);
                ahead.load(block + SPG_SIDE * SPG_SIDE);
            }
#pragma unroll
            for (int f = 0; f < SPG_FRAGMENTS; ++f) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, x_order> b;
                const half* from = reinterpret_cast<const half*>(stage) + f * 16 * (SPG_COLUMN_MAJOR ? SPG_PITCH : 1);
                wmma::load_matrix_sync(b, from, SPG_PITCH);
#pragma unroll
                for (int i = 0; i < SPG_HALVES; ++i) wmma::mma_sync(sum[i][f], a.part[i], b, sum[i][f]);
            }
            a = ahead;
        }
        now = next;
    }

#if SPG_COLUMN_MAJOR
    const wmma::layout_t y_order = wmma::mem_col_major;
#else
    const wmma::layout_t y_order = wmma::mem_row_major;
#endif
#pragma unroll
    for (int h = 0; h < SPG_HALVES; ++h)
#pragma unroll
        for (int f = 0; f < SPG_FRAGMENTS; ++f) {
            const long long top = block_row * SPG_SIDE + 16 * h;
            const index_t column = left + 16 * f;
            if (top >= rows || column >= k) continue;
            const long long pitch = SPG_COLUMN_MAJOR ? rows : k;
            float* to = y + (SPG_COLUMN_MAJOR ? column * pitch + top : top * pitch + column);
            if (SPG_WIDE_Y && top + 16 <= rows && column + 16 <= k) {
                wmma::store_matrix_sync(to, sum[h][f], (unsigned)pitch, y_order);
                continue;
            }
            float* out = reinterpret_cast<float*>(stage);  // an edge: by way of shared memory
            __syncwarp();
            wmma::store_matrix_sync(out, sum[h][f], SPG_OUT_PITCH, y_order);
            __syncwarp();
            for (int at = lane; at < 256; at += 32) {
                const int line = at / 16, place = at % 16;  // a row of Y, or a column
                const long long row = top + (SPG_COLUMN_MAJOR ? place : line);
                const index_t c = column + (SPG_COLUMN_MAJOR ? line : place);
                if (row < rows && c < k) to[line * pitch + place] = out[line * SPG_OUT_PITCH + place];
            }
        }
}
