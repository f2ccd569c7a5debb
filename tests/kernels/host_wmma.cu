// Tensor-core tiles: out = a b + c for one warp and 16x16x16.
#include <cuda_fp16.h>
#include <mma.h>

#include "common/spg.cuh"

using namespace nvcuda;

SPG_KERNEL tile_product(const half* a, const half* b, const float* c, float* out)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(sum, c, 16, wmma::mem_row_major);
    wmma::mma_sync(sum, fa, fb, sum);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_col_major);
}

// In and out of half, element by element.
SPG_KERNEL half_round_trip(index_t n, const float* x, half* h, float* back)
{
    const index_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] = __float2half(x[i]);
    back[i] = __half2float(h[i]);
}

SPG_KERNEL half_arithmetic(half a, half b, half* out)
{
    out[0] = __hadd(a, b);
    out[1] = a * b;
    out[2] = __hfma(a, b, __float2half(0.5f));
    out[3] = a < b ? a : b;
    const half2 both = __hadd2(__halves2half2(a, b), __half2half2(b));
    out[4] = __low2half(both);
    out[5] = __high2half(both);
}
