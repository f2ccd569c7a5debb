// transpose.cuh: out [columns][rows] = in [rows][columns], for kernels that want X row-major and make Y row-major.
//
// A block of 32 x 8 threads moves a tile of 32 x 32 through shared memory: both sides are read and written in whole
// lines. The 33rd column keeps a column of the tile in 32 different banks.
// Idea     Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", NVIDIA 2009.
#pragma once
#include "../common/spg.cuh"

SPG_KERNEL transpose(index_t rows, index_t columns, const value_t* __restrict__ in, value_t* __restrict__ out)
{
    SPG_SHARED_2D(value_t, tile, 32, 33);
    // The long side may have more tiles than gridDim.y can count, so tiles are counted in one dimension.
    const unsigned across = ((unsigned)columns + 31) / 32;
    const long long top = (long long)(blockIdx.x / across) * 32;
    const index_t left = (index_t)(blockIdx.x % across * 32);
    const int i = threadIdx.x % 32;
#pragma unroll
    for (int j = threadIdx.x / 32; j < 32; j += 8)
        if (top + j < rows && left + i < columns) tile[j][i] = in[(top + j) * columns + left + i];
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.x / 32; j < 32; j += 8)
        if (left + j < columns && top + i < rows) out[(long long)(left + j) * rows + top + i] = tile[i][j];
}
