// Races that the detector must find, and ways to order accesses that it must accept.
#include "../../cuda/common/ordered.cuh"
#include "../../cuda/common/teams.cuh"
#include "../../cuda/common/stream.cuh"
#include <cooperative_groups.h>

// ---- found ----------------------------------------------------------------------------------------------

SPG_KERNEL plain_sum(int n, const float* x, float* total)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) total[3] += x[i];
}

SPG_KERNEL plain_and_atomic(int* count)
{
    if (threadIdx.x == 0) count[0] = 5;
    atomicAdd(count, 1);
}

SPG_KERNEL no_barrier(int* out)
{
    SPG_SHARED(int, tile, 64);
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

// A shuffle orders no memory.
SPG_KERNEL shuffle_only(int* out)
{
    SPG_SHARED(int, tile, 32);
    tile[threadIdx.x] = threadIdx.x;
    const int other = __shfl_xor_sync(SPG_FULL_WARP, (int)threadIdx.x, 1);
    out[threadIdx.x] = tile[other];
}

// The last block adds up what all wrote: with FENCES, or without.
SPG_KERNEL last_block(float* partial, unsigned* arrived, float* total)
{
    SPG_SHARED_VAR(bool, last);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 1;
#ifdef FENCES
        __threadfence();
#endif
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
#ifdef FENCES
        __threadfence();
#endif
    }
    __syncthreads();
    if (last && threadIdx.x == 1) {
        float sum = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[b];
        total[0] = sum;
    }
}

SPG_KERNEL block_fence(float* data, unsigned* flag)  // of too small a scope, as two blocks are at it
{
    if (blockIdx.x == 0) {
        data[0] = 1;
        __threadfence_block();
        store_grid((int*)flag, 1);
    } else if (load_grid((int*)flag)) {
        __threadfence();
        data[1] = data[0];
    }
}

SPG_KERNEL through_read_only(float* data, float* out)
{
    const float v = spg_stream(data + threadIdx.x);
    __syncthreads();
    data[threadIdx.x] = v + 1;
    out[threadIdx.x] = v;
}

SPG_KERNEL through_restrict(const float* __restrict__ in, float* out)
{
    const float v = in[threadIdx.x];
    out[threadIdx.x] = v + 1;
}

SPG_KERNEL grandchild(int* data) { data[0] = 1; }
SPG_KERNEL child_beside_parent(int* data)
{
    SPG_LAUNCH(grandchild, 1, 1, 0, cudaStreamFireAndForget)(data);
    data[0] = 2;
}

SPG_KERNEL halves(unsigned short* data)  // neighbours in one word are not the same address
{
    data[threadIdx.x] = threadIdx.x;
}

// ---- accepted -------------------------------------------------------------------------------------------

SPG_KERNEL ordered(int* data, unsigned* words, int* out)
{
    SPG_SHARED(int, tile, 64);
    const int t = threadIdx.x;
    tile[t] = t;
    __syncthreads();
    out[t] = tile[63 - t];
    __syncthreads();
    tile[t] = t;
    __syncwarp();
    out[t] += tile[t ^ 1];
    __syncthreads();
    if (t < 32) {  // a part of the block
        tile[t] = 1;
        team_barrier(0, 32);
        out[t] += tile[31 - t];
    }
    __syncthreads();
    if (t < 16) {  // a part of a warp
        tile[t] = 2;
        __syncwarp(0xffffu);
        out[t] += tile[15 - t];
    }
    if (t == 63) {
        data[0] = 1;
        add_release(words, 1u);
    } else if (t == 0) {
        while (load_acquire(words) == 0) {
        }
        data[0] = 2;
    }
    if (t > 1) store_grid((int*)words + 1, t);  // all together, on purpose
}

SPG_KERNEL over_the_grid(int* data, unsigned* barrier, int* out)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 0; round < 3; ++round) {
        data[t] = t;
        grid_barrier(barrier);
        out[t] += data[n - 1 - t];
        cooperative_groups::this_grid().sync();
    }
}

SPG_KERNEL after_tail(int* data) { data[threadIdx.x] += 1; }
SPG_KERNEL some_child(int* data) { data[threadIdx.x] += 1; }
SPG_KERNEL generations(int* data, int* other)
{
    data[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        SPG_LAUNCH(some_child, 1, 32, 0, cudaStreamFireAndForget)(data);
        SPG_LAUNCH(some_child, 1, 32, 0, 0)(other);
        SPG_LAUNCH(some_child, 1, 32, 0, 0)(other);
        SPG_LAUNCH(after_tail, 1, 32, 0, cudaStreamTailLaunch)(data);
        SPG_LAUNCH(after_tail, 1, 32, 0, cudaStreamTailLaunch)(other);
    }
}

// ---- for the scheduler ----------------------------------------------------------------------------------

// A claim made of a relaxed load and a relaxed store: no data race, yet two may win.
SPG_KERNEL lost_claim(int* owner, int* winners)
{
    if (load_grid(owner) == -1) {
        store_grid(owner, (int)threadIdx.x);
        atomicAdd(winners, 1);
    }
}
