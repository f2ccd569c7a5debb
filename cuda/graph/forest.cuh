// forest.cuh: a forest over the vertices whose trees become connected components.
//
// Layout   parent int32 [n]. A root is its own parent. Two vertices are connected as far as known when they have the
//          same root.
#pragma once

#include "../common/warp.cuh"

// The root of v while no thread joins, and v beneath it. Each thread writes the words of its own vertices only: were
// others moved too, a slower thread could move a vertex that is at its root back to one on the way. All threads at work
// on long paths double their steps together, if they see what the others have done: so only roots, which stay what they
// are, are left to L1.
__device__ __forceinline__ index_t flatten(index_t v, index_t* parent)
{
    index_t at = load_block(parent + v);
    while (load_block(parent + at) != at) {
        at = load_grid(parent + at);
        store_grid(parent + v, at);
    }
    return at;
}
