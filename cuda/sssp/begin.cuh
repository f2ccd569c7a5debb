// begin.cuh: how a search that the host drives begins: nothing reached but the source. See graph/relax.cuh.
#pragma once

#include "../graph/relax.cuh"

SPG_KERNEL sssp_begin(index_t n, const index_t* __restrict__ source, const offset_t* __restrict__ row_ptr,
                      value_t* dist, int* queued, unsigned* in_far, index_t* queue, offset_t* start, index_t* far,
                      word64_t* words, int* least)
{
    const weighted_graph g{n, row_ptr, nullptr, nullptr, 0, 0};
    const search_piles s{(int*)dist, queued, in_far, queue, start, far, words, least, n};
    begin_search(g, s, *source);
}
