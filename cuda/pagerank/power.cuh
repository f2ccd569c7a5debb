// power.cuh: PageRank's power iteration in one cooperative launch: what all ways of adding up ranks share.
//   rank'[v] = (1 - d) teleport[v] + d (sum over edges u -> v of rank[u] / out-degree(u), + what dangling u give)
//
// Layout   rank, share value_t [n]; share is 1 / out-degree, 0 of a dangling vertex, made once per graph by
//          shares.cu; with weights it is 1 or 0, and chance value_t [edges], in the order of the mode's edges, has
//          the rest (null without weights). teleport value_t [n], or null: 1 / n everywhere. totals double [8]: for
//          iteration k two words at 2 (k % 3), the L1 norm of what changed and the rank of dangling vertices, and at 6
//          and 7 the same of the start; the last two must be 0 at a launch and are left so. barrier unsigned [1], see
//          common/ordered.cuh. outcome double [2]: iterations done, and the last change.
//          new_id int32 [n] and out value_t [n]: where the graph was renumbered, the ranks by the input's ids.
// Mapping  a kernel file adds up; it hands each vertex's sum to renew(), by one thread, and calls settle() when all
//          vertices it was to do are done. Nothing is read by the host in between: every thread reads the change of
//          the whole grid after the barrier and makes the same decision.
// Idea     Page, Brin, Motwani and Winograd, 1999; Langville and Meyer, "Deeper inside PageRank", 2004 (dangling
//          vertices); persistent threads as in bfs/persistent.cu.
#pragma once
#include "../common/ordered.cuh"
#include "along.cuh"

// Dangling vertices have no out-edge. Their rank is spread evenly (SPREAD), kept by themselves (KEEP) or lost (LOSE);
// with SPG_JUMP it goes where the walk jumps to, in a module of its own: pull-hubs in double precision has no register
// left.
//
// With SPG_WEIGHTED an edge is taken with a chance of its own, weight / sum of its source's weights, in place of
// 1 / out-degree; dangling is then what has no edge of a weight above 0.
//
// Trace    trace double [2 traced] interleaved: when iteration k ended, in ns, and its change; only if traced > 0,
//          and one more pair at first: when the first began.
// Sums     of change and of dangling rank are double, one atomic per block and word: their order, and so the last
//          bits, differ from run to run.

enum { LOSE = 0, SPREAD = 1, KEEP = 2 };

struct power_iteration {
    index_t n;
    int max_iterations;
    double tolerance;
    value_t damping, jump;  // d and 1 - d
    value_t even;           // 1 / n
    int dangling;
    const value_t* __restrict__ share;
    const value_t* __restrict__ teleport;
    value_t* rank;
    double* totals;
    unsigned* barrier;
    double* outcome;
    const index_t* __restrict__ new_id;
    value_t* out;
    double* trace;
    int traced;

    // Of this thread, in the iteration at hand:
    double change, loose;
    // Of all, before damping: what each vertex gets of the dangling ones' rank; with SPG_JUMP all of that rank.
    value_t spread;

    __device__ __forceinline__ value_t start(index_t v) const { return teleport ? teleport[v] : even; }

    // The vertex's new rank, from the sum over its in-edges, its rank so far and its share.
    __device__ __forceinline__ value_t renew(index_t v, value_t sum, value_t before, value_t part)
    {
#ifdef SPG_JUMP
        value_t got = sum + spread * start(v);
#else
        value_t got = sum + spread;
#endif
        if (part == 0 && dangling == KEEP) got += before;
        const value_t now = jump * start(v) + damping * got;
        rank[v] = now;
        change += now < before ? (double)before - (double)now : (double)now - (double)before;
        if (part == 0) loose += (double)now;
        return now;
    }

    // The block's sums into two words of `totals`. All threads of the block call it.
    __device__ __forceinline__ void add_up(int word)
    {
        SPG_SHARED(double, sums, 64);
        for (int distance = 16; distance > 0; distance /= 2) {
            change += __shfl_down_sync(SPG_FULL_WARP, change, distance);
            loose += __shfl_down_sync(SPG_FULL_WARP, loose, distance);
        }
        if (threadIdx.x % 32 == 0) {
            sums[threadIdx.x / 32] = change;
            sums[32 + threadIdx.x / 32] = loose;
        }
        __syncthreads();
        if (threadIdx.x < 2) {  // one thread for each word
            double sum = 0;
            for (unsigned w = 0; w < (blockDim.x + 31) / 32; ++w) sum += sums[32 * threadIdx.x + w];
            if (sum != 0) atomicAdd(totals + word + threadIdx.x, sum);
        }
        change = loose = 0;
    }

    __device__ __forceinline__ void share_out(double dangling_rank)
    {
#ifdef SPG_JUMP
        spread = (value_t)dangling_rank;
#else
        spread = dangling == SPREAD ? (value_t)(dangling_rank / n) : 0;
#endif
    }

    __device__ __forceinline__ void note(int k, double moved) const
    {
        if (k >= traced) return;
        trace[2 * k] = (double)spg_nanoseconds();
        trace[2 * k + 1] = moved;
    }

    // The start, without what dangling vertices give: x gets what each vertex gives along an edge (null where it
    // is not needed), v's at place[v] (null: at v), and sums are set to 0 (null: none).
    __device__ __forceinline__ void enter(value_t* x, double* sums, const index_t* place = nullptr)
    {
        change = loose = 0;
        const long long threads = (long long)gridDim.x * blockDim.x;
        for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads) {
            const value_t now = start((index_t)v), part = share[v];
            rank[v] = now;
            if (x) x[place ? place[v] : v] = now * part;
            if (sums) sums[v] = 0;
            if (part == 0) loose += (double)now;
        }
        add_up(6);
        if (blockIdx.x == 0 && threadIdx.x < 2) totals[threadIdx.x] = 0;  // of iteration 0, by a thread each
    }

    // The start as a whole, in a kernel that does all iterations.
    __device__ __forceinline__ void begin(value_t* x, double* sums, const index_t* place = nullptr)
    {
        enter(x, sums, place);
        grid_barrier(barrier);
        share_out(totals[7]);
        if (blockIdx.x == 0 && threadIdx.x == 0) note(0, 0);
    }

    // Iteration k is done, as far as this block goes. Whether it was the last one; every thread gets the same answer.
    //
    // The words of iteration k + 1 are cleared before the barrier: what they held, of iteration k - 2, was last read
    // before the barrier of iteration k - 1.
    __device__ __forceinline__ bool settle(int k)
    {
        add_up(2 * (k % 3));
        if (blockIdx.x == 0 && threadIdx.x < 2) {
            totals[2 * ((k + 1) % 3) + threadIdx.x] = 0;
            if (k > 0) totals[6 + threadIdx.x] = 0;
        }
        grid_barrier(barrier);
        const double moved = totals[2 * (k % 3)];
        share_out(totals[2 * (k % 3) + 1]);
        const bool last = moved <= tolerance || k + 1 >= max_iterations;
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            note(k + 1, moved);
            if (last) {
                outcome[0] = k + 1;
                outcome[1] = moved;
            }
        }
        if (last) {
            if (blockIdx.x == 0 && threadIdx.x < 2) totals[6 + threadIdx.x] = 0;  // read before the last barrier
            if (new_id) {
                const long long threads = (long long)gridDim.x * blockDim.x;
                for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads)
                    out[v] = rank[new_id[v]];
            }
        }
        return last;
    }
};

// The parameters that every kernel here begins with, and the struct made of them.
// (Not for the formatter, which takes lists for expressions.)
// clang-format off
#define POWER_PARAMETERS                                                                                          \
    index_t n, int max_iterations, double tolerance, double damping, int dangling,                                \
    const value_t* __restrict__ share, const value_t* __restrict__ teleport, value_t* rank, double* totals,       \
    unsigned* barrier, double* outcome, const index_t* __restrict__ new_id, value_t* out, double* trace,          \
    int traced
#define POWER_ITERATION                                                                                           \
    {                                                                                                             \
        n, max_iterations, tolerance, (value_t)damping, (value_t)(1.0 - damping), (value_t)(1.0 / n), dangling,   \
        share, teleport, rank, totals, barrier, outcome, new_id, out, trace, traced, 0, 0, 0                      \
    }
// clang-format on
