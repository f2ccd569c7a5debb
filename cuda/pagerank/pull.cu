// pull: PageRank; every vertex adds up what its in-edges bring. Work divided as by csr-adaptive (spmv/adaptive.cuh).
//
// Layout   see power.cuh. in_ptr offset_t [n + 1], in int32 [m]: sources of each vertex's in-edges. x0, x1 value_t [n]:
//          what each vertex gives along an edge, rank / out-degree, of the iteration before and of this one, in turn.
//          chance value_t [m]: of each in-edge, see power.cuh; read in quads as they are.
//          The row-block table of `tiles` tiles and its workspace are those of adaptive.cuh.
// Mapping  the whole iteration is one cooperative launch. A block takes every gridDim.x-th tile of SPG_TILE vertices
//          and edges, reads the edges in quads of 16 bytes, gathers x, adds up in shared memory. One grid barrier per
//          iteration; the new rank, its x, the change and the dangling vertices' rank are made where the sum is.
// Wins     on anything that does not fit below: no atomics on ranks, 4 bytes and one gather per edge, hubs are shared
//          by several blocks.
// Loses    on small graphs, where the table's look-ups and the barriers take longer than the edges.
// Idea     Page and others, 1999; the division of work by Greathouse and Daga, SC 2014, and Merrill and Garland, PPoPP
//          2016.
#include "../spmv/adaptive.cuh"
#include "cached.cuh"
#include "power.cuh"

struct in_edges {
    const index_t* __restrict__ in;
    const value_t* x;
    const value_t* __restrict__ chance;

    struct quad {
        index_quad in;
        value_quad p;
    };

#ifdef SPG_WEIGHTED
    __device__ __forceinline__ quad load(long long e) const { return {stream_quad(in, e), stream_quad(chance, e)}; }
    __device__ __forceinline__ void multiply(quad& q) const
    {
#pragma unroll
        for (int u = 0; u < 4; ++u) q.p.at[u] *= load_cached(x + q.in.at[u]);
    }
#else
    __device__ __forceinline__ quad load(long long e) const { return {stream_quad(in, e), {}}; }
    __device__ __forceinline__ void multiply(quad& q) const
    {
#pragma unroll
        for (int u = 0; u < 4; ++u) q.p.at[u] = load_cached(x + q.in.at[u]);
    }
#endif
    __device__ __forceinline__ value_t product(long long e) const { return along(x[in[e]], chance, e); }
    __device__ __forceinline__ value_t finish(value_t sum) const { return sum; }
};

struct ranks {
    power_iteration& p;
    value_t* x;

    struct held {
        value_t rank, share;
    };

    __device__ __forceinline__ held ask(index_t v) const { return {p.rank[v], p.share[v]}; }
    __device__ __forceinline__ void put(index_t v, value_t sum, held h)
    {
        x[v] = p.renew(v, sum, h.rank, h.share) * h.share;
    }
};

SPG_KERNEL pagerank_pull_table(index_t rows, index_t blocks, const offset_t* __restrict__ row_ptr, index_t* block_row,
                               offset_t* block_entry, index_t* reaches_in)
{
    adaptive_table(rows, blocks, row_ptr, block_row, block_entry, reaches_in);
}

SPG_KERNEL SPG_ADAPTIVE_BOUNDS pagerank_pull(POWER_PARAMETERS, offset_t m, index_t tiles,
                                             const index_t* __restrict__ block_row,
                                             const offset_t* __restrict__ block_entry,
                                             const index_t* __restrict__ reaches_in, value_t* partial,
                                             unsigned* arrived, const offset_t* __restrict__ in_ptr,
                                             const index_t* __restrict__ in, value_t* x0, value_t* x1,
                                             const value_t* __restrict__ chance)
{
    power_iteration p = POWER_ITERATION;
    p.begin(x0, nullptr);
    for (int k = 0;; ++k) {
        const in_edges edges = {in, k % 2 ? x1 : x0, chance};
        ranks rows = {p, k % 2 ? x0 : x1};
        for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            adaptive_tile(edges, tile, m, {block_row, block_entry, reaches_in}, {partial, arrived}, in_ptr, rows);
            __syncthreads();  // before the next tile's products are put where these are
        }
        if (p.settle(k)) break;
    }
}
