// restore: component labels of relabelled vertices, by the vertices of the input.
//
// A component's label is its least vertex by the ids of the packed graph; here it becomes the least by the input's ids.
// Layout   label int32 [n], by new ids; old_id, new_id int32 [n], inverse to each other; least int32 [n], by new ids:
//          only the words of roots are used; out int32 [n], by old ids.
// Mapping  three launches of a thread per vertex.
#include "../common/spg.cuh"
#include "../graph/sync.cuh"

SPG_KERNEL cc_restore_begin(index_t n, index_t* least)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) least[v] = n;
}

SPG_KERNEL cc_restore_least(index_t n, const index_t* __restrict__ label, const index_t* __restrict__ old_id,
                            index_t* least)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    // A plain look first: most vertices share a root, and only those that lower its word need an atomic. What is
    // read may be old, that is too high; then the atomic changes nothing.
    if (v < n && load_grid(least + label[v]) > old_id[v]) atomicMin(least + label[v], old_id[v]);
}

SPG_KERNEL cc_restore_write(index_t n, const index_t* __restrict__ label, const index_t* __restrict__ new_id,
                            const index_t* __restrict__ least, index_t* __restrict__ out)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) out[v] = least[label[new_id[v]]];
}
