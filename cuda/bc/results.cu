// results.cu: how the modes that the host drives begin and end.
//
// Layout   level int32 [n], paths path_sums [n] and scale, see graph/paths.cuh; queue int32 [n], null where there is
//          none; sizes int32 [3], as in graph/begin.cuh; old_id int32 [n], null where vertices were not relabelled;
//          dependency float64 [n], by the ids of the input.
// Mapping  a thread per vertex, in strides of the grid.
#include "../common/spg.cuh"
#include "../graph/paths.cuh"

// sizes int32 [3]: as in graph/begin.cuh; queue: null where there is none.
SPG_KERNEL bc_begin(index_t n, const index_t* __restrict__ source, int* level, path_sums* paths, int* scale,
                    index_t* queue, int* sizes)
{
    begin_paths(n, *source, level, paths, scale);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        if (queue) queue[0] = *source;
        sizes[0] = 1;
        sizes[1] = 0;
    }
}

SPG_KERNEL bc_end(index_t n, const index_t* __restrict__ source, const path_sums* paths,
                  const index_t* __restrict__ old_id, double* dependency)
{
    end_paths(n, *source, paths, old_id, dependency);
}
