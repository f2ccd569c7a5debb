// auto: lengths of shortest paths in one launch: near and far piles, small phases by one block alone.
//
// Layout   as in frontier.cu; barrier unsigned [1]; handover int64 [7], from block 0 to the others; facts int64 [4]:
//          how many phases (splits included) and splits there were, how many edges were relaxed, and the last delta's
//          bits; stamps: see graph/relax_alone.cuh and graph/stamps.cuh.
// Mapping  one cooperative launch, as many blocks as fit. Every block decides by the same numbers, by the table below.
//          With `delta` so large that nothing is ever far this is Bellman-Ford by frontier. `busy`: see
//          raise_threshold.
// Wins     over near-far by what its launches and read-backs cost; on long thin graphs (roads, grids), where a phase
//          by one block takes no grid barrier.
// Loses    where frontiers are small but of high degree: each phase then costs a grid barrier.
// Idea     as near_far.cu; one launch with a block that goes on alone, as bfs/one_block.cu.
#include "../common/spg.cuh"
#include "../graph/relax_alone.cuh"

// How a phase is done.
//   the near frontier is small and of low degree      block 0 alone (graph/relax_alone.cuh), the others wait
//   it is larger                                      all edges of it in equal parts, a grid barrier after it
//   it is empty, and the far pile holds few           block 0 alone
//   it is empty, and the far pile holds more          all split the far pile, a grid barrier after it
SPG_KERNEL __launch_bounds__(1024, 1)
    sssp_auto(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
              const index_t* __restrict__ col, const value_t* __restrict__ weight, value_t uniform, int limit,
              value_t delta, long long busy, value_t* dist, int* queued, unsigned* in_far, index_t* queue,
              offset_t* start, index_t* far, word64_t* words, int* least, long long* handover, long long* facts,
              unsigned* barrier, int small_vertices, long long small_edges, long long small_waiting, long long* stamps,
              int watched)
{
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    const weighted_graph g{n, row_ptr, col, weight, uniform, limit};
    const search_piles s{(int*)dist, queued, in_far, queue, start, far, words, least, n};
    const small_search small{small_vertices, small_edges, small_waiting};
    search_place at{0, 0, threshold_beyond(0, delta), 0, delta, 0, 0};
    begin_search(g, s, *source);
    grid_barrier(barrier);
    for (;;) {
        const word64_t now = *s.tally(at.k);
        bool alone = small.holds(now);
        if (now == 0) {
            const long long waiting = (long long)*s.far_count(at.j);
            if (waiting == 0) break;
            alone = waiting <= small.waiting;
            if (!alone) {
                const int lower = at.threshold;
                raise_threshold(s, at, busy);
                if (first) {
                    stamp(stamps, watched, at.k, told_split(waiting, false));
                    clear_tally(s, at.k);
                    clear_far(s, at.j);
                }
                split_far(g, s, at.k, at.j, lower, at.threshold, blockIdx.x, gridDim.x);
                grid_barrier(barrier);
                ++at.k;
                ++at.j;
                at.fresh = 1;
                continue;
            }
        }
        if (alone) {
            grid_barrier(barrier);  // all have read the counters, which block 0 now changes
            if (blockIdx.x == 0) {
                search_alone(g, s, small, busy, at, stamps, watched);
                if (first) {
                    handover[0] = at.k;
                    handover[1] = at.j;
                    handover[2] = at.threshold;
                    handover[3] = at.fresh;
                    handover[4] = bits_of(at.delta);
                    handover[5] = at.relaxed;
                    handover[6] = at.before;
                }
            }
            grid_barrier(barrier);
            at = search_place{(int)handover[0],
                              (int)handover[1],
                              (int)handover[2],
                              (int)handover[3],
                              value_of((int)handover[4], value_t()),
                              handover[5],
                              handover[6]};
            continue;
        }
        at.relaxed += tally_edges(now);
        if (first) {
            stamp(stamps, watched, at.k, told_phase(now, false));
            clear_tally(s, at.k);
        }
        relax_phase(g, s, at.k, at.j, at.threshold);
        grid_barrier(barrier);
        ++at.k;
        at.fresh = 0;
    }
    if (first) {
        stamp(stamps, watched, at.k, -1);
        facts[0] = at.k;
        facts[1] = at.j;
        facts[2] = at.relaxed;
        facts[3] = bits_of(at.delta);
    }
}
