// dense.cuh: pieces of rows of X and Y, for SpMM kernels whose lanes go over the k columns (row-major X and Y).
//
// SPG_LANES neighbouring lanes share a row of X. Each of them takes SPG_VECS pieces of SPG_VEC values, a piece being
// one load of up to 16 bytes: piece p of lane l starts at column (p * SPG_LANES + l) * SPG_VEC of the launch's tile
// of SPG_TILE_K columns, so that the lanes together read SPG_LANES * SPG_VEC neighbouring values at a time. The host
// picks SPG_VEC so that it divides k (rows of X then start on a multiple of the piece) and block row blockIdx.y of
// the grid for each tile.
#pragma once
#include "../common/stream.cuh"

// SPG_BLOCK: told to expect one block at least, ptxas keeps loads together for which it otherwise saves registers.
#if !defined(SPG_VEC) || !defined(SPG_LANES) || !defined(SPG_VECS) || !defined(SPG_BLOCK)
#error "the host function defines SPG_VEC, SPG_LANES, SPG_VECS and SPG_BLOCK"
#endif
#define SPG_TILE_K (SPG_VEC * SPG_LANES * SPG_VECS)
// Rows of X on their way at a time: some eight loads a thread, without spilling.
#define SPG_AHEAD (SPG_VECS >= 8 ? 1 : 8 / SPG_VECS)

struct __align__(sizeof(value_t) * SPG_VEC) piece_t {
    value_t v[SPG_VEC];
};
static_assert(sizeof(piece_t) <= 16, "no load is wider than 16 bytes");

// One load, or zeros where there is nothing to load. Cached: rows of X are read again by other rows of A.
//
// The predicate is in the load itself: an `if` around it becomes a branch, and loads that have branches between
// them are not all in flight together. Volatile asm keeps its order, ahead of the first use (see stream.cuh).
#ifdef SPG_HOST
static inline piece_t load_piece(const value_t* p, bool there)
{
    piece_t r = {};
    if (there) r = spg::hinted_load<SPG_READ_ONLY>(reinterpret_cast<const piece_t*>(p));
    return r;
}
#else
__device__ __forceinline__ void load_if(float4& r, const void* p, bool there)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %5, 0; @q ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                 : "+f"(r.x), "+f"(r.y), "+f"(r.z), "+f"(r.w)
                 : "l"(p), "r"((int)there));
}
__device__ __forceinline__ void load_if(double2& r, const void* p, bool there)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %3, 0; @q ld.global.nc.v2.f64 {%0, %1}, [%2]; }"
                 : "+d"(r.x), "+d"(r.y)
                 : "l"(p), "r"((int)there));
}
__device__ __forceinline__ void load_if(float2& r, const void* p, bool there)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %3, 0; @q ld.global.nc.v2.f32 {%0, %1}, [%2]; }"
                 : "+f"(r.x), "+f"(r.y)
                 : "l"(p), "r"((int)there));
}
__device__ __forceinline__ void load_if(float& r, const void* p, bool there)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.f32 %0, [%1]; }"
                 : "+f"(r)
                 : "l"(p), "r"((int)there));
}
__device__ __forceinline__ void load_if(double& r, const void* p, bool there)
{
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; @q ld.global.nc.f64 %0, [%1]; }"
                 : "+d"(r)
                 : "l"(p), "r"((int)there));
}

__device__ __forceinline__ piece_t load_piece(const value_t* p, bool there)
{
    piece_t r;
    if constexpr (sizeof(piece_t) == 16 && SPG_VEC == 4) {
        float4 q = make_float4(0, 0, 0, 0);
        load_if(q, p, there);
        r.v[0] = q.x, r.v[1] = q.y, r.v[2] = q.z, r.v[3] = q.w;
    } else if constexpr (sizeof(piece_t) == 16 && SPG_VEC == 2) {
        double2 q = make_double2(0, 0);
        load_if(q, p, there);
        r.v[0] = q.x, r.v[1] = q.y;
    } else if constexpr (sizeof(piece_t) == 8 && SPG_VEC == 2) {
        float2 q = make_float2(0, 0);
        load_if(q, p, there);
        r.v[0] = q.x, r.v[1] = q.y;
    } else {
        r.v[0] = 0;
        load_if(r.v[0], p, there);
    }
    return r;
}
#endif

__device__ __forceinline__ void store_piece(value_t* p, const piece_t& r)
{
    if constexpr (sizeof(piece_t) == 16 && SPG_VEC == 4)
        *reinterpret_cast<float4*>(p) = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
    else if constexpr (sizeof(piece_t) == 16 && SPG_VEC == 2)
        *reinterpret_cast<double2*>(p) = make_double2(r.v[0], r.v[1]);
    else if constexpr (sizeof(piece_t) == 8 && SPG_VEC == 2)
        *reinterpret_cast<float2*>(p) = make_float2(r.v[0], r.v[1]);
    else
        *p = r.v[0];
}

// The pieces of one row that a lane holds: sums, or values of X on their way.
struct pieces_t {
    piece_t p[SPG_VECS];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
            for (int j = 0; j < SPG_VEC; ++j) p[i].v[j] = 0;
    }
    // The lane's pieces of a row of X, zeros beyond column k and where there is no row. `first`: column of the
    // lane's first piece.
    __device__ __forceinline__ void load(const value_t* row, index_t first, index_t k, bool there)
    {
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i) {
            const index_t column = first + i * SPG_LANES * SPG_VEC;
            p[i] = load_piece(row + column, there && column < k);
        }
    }
    __device__ __forceinline__ void store(value_t* row, index_t first, index_t k) const
    {
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
            if (first + i * SPG_LANES * SPG_VEC < k) store_piece(row + first + i * SPG_LANES * SPG_VEC, p[i]);
    }
    __device__ __forceinline__ void add(value_t a, const pieces_t& x)
    {
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
            for (int j = 0; j < SPG_VEC; ++j) p[i].v[j] += a * x.p[i].v[j];
    }
    __device__ __forceinline__ void add(const pieces_t& x)
    {
#pragma unroll
        for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
            for (int j = 0; j < SPG_VEC; ++j) p[i].v[j] += x.p[i].v[j];
    }
};

// Column of the calling lane's first piece.
__device__ __forceinline__ index_t first_column()
{
    return (index_t)(blockIdx.y * SPG_TILE_K + threadIdx.x % SPG_LANES * SPG_VEC);
}
