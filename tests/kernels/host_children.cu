// Launches from the device (relocatable code on CUDA).
#include "common/spg.cuh"

SPG_KERNEL mark(int* out, int at, int value) { out[at * blockDim.x + threadIdx.x] = value + threadIdx.x; }

// A child per thread.
SPG_KERNEL spread(int* out, unsigned* failed)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    SPG_LAUNCH(mark, 1, 4, 0, cudaStreamFireAndForget)(out, t, 10 * t);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        atomicAdd(failed, 1u);
        out[t * 4] = -(int)error;
        if (cudaGetLastError() != cudaSuccess) out[t * 4] = 0;  // it was cleared
    }
}

SPG_KERNEL append(int* log, int value) { log[1 + atomicAdd(&log[0], 1)] = value; }

// The tail runs after all of this grid and its children, whatever the order of launching.
SPG_KERNEL ordered(int* log)
{
    if (threadIdx.x == 0) SPG_LAUNCH(append, 1, 1, 0, cudaStreamTailLaunch)(log, 1000 + (int)blockIdx.x);
    SPG_LAUNCH(append, 1, 1, 0, cudaStreamFireAndForget)(log, 1);
}

// The default stream of a block runs its launches one after another.
SPG_KERNEL in_stream(int* log)
{
    if (threadIdx.x == 0)
        for (int k = 0; k < 20; ++k) SPG_LAUNCH(append, 1, 1, 0, 0)(log, k);
}

// A stream of a grid is used by its threads only, and until it is destroyed; what is in it is done.
SPG_KERNEL into(unsigned long long stream, int* error)
{
    SPG_LAUNCH(append, 1, 1, 0, (cudaStream_t)stream)(error, 0);
    *error = cudaGetLastError();
}

SPG_KERNEL streams(int* log, int* errors)
{
    cudaStream_t stream;
    errors[0] = cudaStreamCreateWithFlags(&stream, 0);
    errors[1] = cudaGetLastError();
    errors[2] = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int k = 0; k < 20; ++k) SPG_LAUNCH(append, 1, 1, 0, stream)(log, k);
    SPG_LAUNCH(into, 1, 1, 0, cudaStreamFireAndForget)((unsigned long long)stream, errors + 6);
    errors[3] = cudaStreamDestroy(stream);
    errors[4] = cudaStreamDestroy(stream);
    cudaGetLastError();
    SPG_LAUNCH(append, 1, 1, 0, stream)(log, 99);
    errors[5] = cudaGetLastError();
}

// Tail launches itself until left is 0.
SPG_KERNEL chain(int* count, int left)
{
    atomicAdd(count, 1);
    if (left > 0) SPG_LAUNCH(chain, 1, 1, 0, cudaStreamTailLaunch)(count, left - 1);
}

// Recursion: a binary tree of grids.
SPG_KERNEL tree(int* count, int depth)
{
    if (threadIdx.x == 0) atomicAdd(count, 1);
    if (depth > 0 && threadIdx.x < 2) SPG_LAUNCH(tree, 1, 32, 0, cudaStreamFireAndForget)(count, depth - 1);
}

SPG_KERNEL too_large(int* out)
{
    SPG_LAUNCH(mark, 1, 2048, 0, cudaStreamFireAndForget)(out, 0, 0);
    out[0] = cudaGetLastError();
    out[1] = cudaPeekAtLastError();
}

SPG_KERNEL leaks_shared(int* out)
{
    SPG_SHARED(int, mine, 32);
    mine[threadIdx.x] = out[0];
    __syncthreads();
    if (threadIdx.x == 0) SPG_LAUNCH(mark, 1, 32, 0, cudaStreamFireAndForget)(mine, 0, 0);
}
