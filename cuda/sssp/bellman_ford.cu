// bellman-ford: lengths of shortest paths, a thread per vertex in every round; it relaxes all its out-edges.
//
// Layout   row_ptr offset_t [n + 1], col int32 [nnz], weight value_t [nnz] (null: all weigh `uniform`): out-edges;
//          limit: the first length that is not kept; dist value_t [n]: lengths, see graph/path_lengths.cuh;
//          progress word64_t [2]: the last round that lowered a length (they count from 1), and edges relaxed so far.
// Mapping  one launch per round, until one lowers nothing; thread v walks v's out-edges, an atomicMin each. A vertex
//          that is not reached yet has nothing to offer.
// Wins     on nothing but the length of its source: no queue, and no thread looks which lengths have fallen.
// Loses    everywhere else: the edges of every reached vertex are relaxed again in every round, and there are up to n
//          rounds; a hub is walked by one thread.
// Idea     Bellman 1958, Ford 1956. One thread per vertex: Harish and Narayanan, HiPC 2007.
#include "../common/warp.cuh"
#include "../graph/path_lengths.cuh"

SPG_KERNEL bellman_ford_begin(index_t n, const index_t* __restrict__ source, value_t* dist, word64_t* progress)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) ((int*)dist)[v] = v == *source ? 0 : unreached_as(value_t());
    if (v < 2) progress[v] = 0;
}

// Race: dist[v] may fall while it is read. The thread then relaxes with an older, longer length, but the thread that
// lowered it notes that in `progress`, so there is another round. All writers of progress[0] write the same number.
SPG_KERNEL bellman_ford_round(index_t n, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                              const value_t* __restrict__ weight, value_t uniform, int limit, value_t* dist,
                              word64_t* progress, word64_t round)
{
    int* lengths = (int*)dist;
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const int length = v < n ? load_grid(lengths + v) : unreached_as(value_t());
    word64_t edges = 0;
    if (length != unreached_as(value_t())) {
        bool lowered = false;
        for (offset_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const int there = length_plus(length, weight ? weight[e] : uniform);
            if (there < limit && there < atomicMin(lengths + col[e], there)) lowered = true;
        }
        if (lowered) store_grid(progress, round);
        edges = (word64_t)(row_ptr[v + 1] - row_ptr[v]);
    }
    edges = lane_0_sum(edges);  // all lanes come here: one atomic a warp
    if (edges && threadIdx.x % 32 == 0) atomicAdd(progress + 1, edges);
}
