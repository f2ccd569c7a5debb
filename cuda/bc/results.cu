// results.cu: how the modes that the host drives begin and end, see graph/paths.cuh.
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
