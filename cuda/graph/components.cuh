// components.cuh: a forest over the vertices whose trees become connected components.
//
// Layout   parent int32 [n]: parent[v] <= v; a root is its own parent. Two vertices are connected as far as known when
//          they have the same root. Trees are joined at their roots, the larger root beneath the smaller, so a root is
//          the least vertex of its tree, and when all edges are joined the least of its component.
//
// Races    Threads walk up while others join and shorten. Two kinds of writes occur: a root is hooked, by a
//          compare-and-swap that only a root passes; and a vertex that is no root (and never becomes one again) is
//          moved up to an ancestor, by a relaxed store. So whatever a thread reads, and however old it is, is an
//          ancestor of the vertex. That is why L1 may answer the reads (load_block): an old answer makes a path longer
//          or a root seem to be one that is hooked by now, which the compare-and-swap then finds out. Its own answer
//          comes from L2, so nobody waits for a line in L1 to age. Were all reads to go to L2, the one root that most
//          vertices share would be read there by every warp.
#pragma once

#include "sync.cuh"

// The root of v as far as this thread can see. Each vertex on the way is moved up to its grandparent (path halving),
// so long paths shorten by half with every walk.
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

// Joins the trees of u and w; true if they were two.
__device__ __forceinline__ bool join(index_t u, index_t w, index_t* parent)
{
    index_t a = root_of(u, parent), b = root_of(w, parent);
    while (a != b) {
        const index_t high = max(a, b), low = min(a, b);
        const index_t old = atomicCAS(parent + high, high, low);
        if (old == high) return true;
        a = root_of(old, parent);  // hooked by somebody else meanwhile: on from there, which is lower
        b = low;
    }
    return false;
}

// Every vertex up to its root, by the whole grid, while nobody joins. Each thread writes the words of its own vertices
// only: were paths halved here, a slower thread could move a vertex that is at its root back to one on the way.
__device__ __forceinline__ void flatten(index_t n, index_t* parent)
{
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n; v += threads) {
        index_t at = load_block(parent + v);
        for (index_t next; (next = load_block(parent + at)) != at; at = next) store_grid(parent + v, next);
    }
}
