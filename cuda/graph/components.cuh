// components.cuh: joining the trees of a forest (forest.cuh) at their roots.
//
// Order    The higher root goes beneath the lower: vertices rank by their numbers, but one, `hub`, ranks lowest of all.
//          So a root is the least vertex of its tree, or the hub; and when all edges are joined the least of its
//          component, or the hub.
#pragma once

#include "forest.cuh"

// Hub      Were all ranks numbers, large trees would grow everywhere and be joined in turn, and for each such join
//          every thread that has an edge between the two would want to hook the same root at the same time. With a hub
//          that most vertices are near to there is one large tree from the start, and what is hooked are small ones.
//
// Races    Threads walk up while others join and shorten. Two kinds of writes occur: a root is hooked, by a
//          compare-and-swap that only a root passes; and a vertex that is not a root (and never becomes one again) is
//          moved up to an ancestor, by a relaxed store. So whatever a thread reads, and however old it is, is an
//          ancestor of the vertex. That is why L1 may answer the reads (load_block): an old answer makes a path longer
//          or a root seem to be one that is hooked by now, which the compare-and-swap then finds out. Its own answer
//          comes from L2, so none waits for a line in L1 to age. Were all reads to go to L2, the one root that most
//          vertices share would be read there by every warp: three times slower in all on an H200.

// The root of v as far as this thread can see. Each vertex on the way is moved up to its grandparent (path halving), so
// paths shorten by half with every walk. That is for short paths: on a grid graph, whose paths are 1,000 vertices long
// where they are not flattened, it made joining four times slower, since each move costs the other blocks their
// line.
__device__ __forceinline__ index_t root_of(index_t v, index_t* parent)
{
    index_t at = load_block(parent + v);
    if (at == v) return v;
    index_t before = v;
    for (index_t next; (next = load_block(parent + at)) != at; at = next) {
        store_grid(parent + before, next);
        before = at;
    }
    return at;
}

// Joins the trees of u and w.
__device__ __forceinline__ void join(index_t u, index_t w, index_t hub, index_t* parent)
{
    index_t a = root_of(u, parent), b = root_of(w, parent);
    while (a != b) {
        const bool a_is_lower = a == hub || (b != hub && a < b);
        const index_t high = a_is_lower ? b : a, low = a_is_lower ? a : b;
        // Another thread may hook roots meanwhile: then on from what they are beneath, which is lower. Asking L2
        // first is cheaper than a failed swap, where many threads want the same root.
        index_t old = load_grid(parent + high);
        if (old == high) old = atomicCAS(parent + high, high, low);
        if (old == high) return;
        a = root_of(old, parent);
        b = low;
    }
}
