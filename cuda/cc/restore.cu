// restore: component labels of relabelled vertices, by the vertices of the input.
//
// A component's label is its least vertex by the ids of the packed graph; here it becomes the least by the input's ids.
// Layout   label int32 [n], by new ids; old_id, new_id int32 [n], inverse to each other; least int32 [n], by new ids:
//          only the words of roots are used; out int32 [n], by old ids.
// Mapping  three launches of a thread per vertex; in the second a thread has several.
#include "../common/spg.cuh"

SPG_KERNEL cc_restore_begin(index_t n, index_t* least)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) least[v] = n;
}

// One word is wanted by most vertices: that of vertex 0's component, since vertex 0 has most edges. A block has one
// atomic for it, by the least that its threads have.
SPG_KERNEL cc_restore_least(index_t n, const index_t* __restrict__ label, const index_t* __restrict__ old_id,
                            index_t* least)
{
    SPG_SHARED_VAR(index_t, block_least);
    if (threadIdx.x == 0) block_least = n;
    __syncthreads();
    const index_t popular = label[0];
    index_t mine = n;
    for (long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x; v < n;
         v += (long long)gridDim.x * blockDim.x) {
        if (label[v] == popular)
            mine = min(mine, old_id[v]);
        else
            atomicMin(least + label[v], old_id[v]);
    }
    if (mine < n) atomicMin(&block_least, mine);
    __syncthreads();
    if (threadIdx.x == 0 && block_least < n) atomicMin(least + popular, block_least);
}

SPG_KERNEL cc_restore_write(index_t n, const index_t* __restrict__ label, const index_t* __restrict__ new_id,
                            const index_t* __restrict__ least, index_t* __restrict__ out)
{
    const long long v = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) out[v] = least[label[new_id[v]]];
}
