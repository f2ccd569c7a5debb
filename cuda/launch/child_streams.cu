// child-streams: tasks launched from the device, each into a stream that is made for it and destroyed after.
//
// Layout   result word64_t [2], see launch/task.cuh; children word64_t [6], see common/children.cuh.
// Mapping  a thread per task, blocks of 128, each makes a stream, launches one child grid into it and destroys it; what
//          is in the stream is still done. A child has a thread per item, blocks of 128.
// Wins     nowhere here: a stream orders launches, and one launch needs no order. Where a thread launches several grids
//          that need each other, a stream of its own keeps them from waiting for those of its neighbours.
// Loses    against fire-and-forget by a stream made and destroyed for each task.
// Idea     CUDA programming guide, "CUDA dynamic parallelism", "Streams"; what older texts do against the order of
//          stream 0.
#include "../common/children.cuh"
#include "task.cuh"

SPG_KERNEL streamed_task(int items, unsigned long long* result) { run_task(items, result); }

SPG_KERNEL child_streams(int tasks, int items, int blocks, unsigned long long* children, unsigned long long* result)
{
    if ((int)(blockIdx.x * blockDim.x + threadIdx.x) >= tasks) return;
    cudaStream_t stream;
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        atomicAdd(children + SPG_FAILED, 1ull);
        atomicExch(children + SPG_ERROR, (unsigned long long)error);
        return;
    }
    SPG_LAUNCH(streamed_task, blocks, SPG_TASK_BLOCK, 0, stream)(items, result);
    count_child(children);
    cudaStreamDestroy(stream);
}
