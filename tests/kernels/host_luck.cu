// What a parent may count on: two kernels that are right only if its children run early, and two that are right always.
#include "common/children.cuh"

SPG_KERNEL square(int* values, int i) { values[i] = i * i; }

__device__ __forceinline__ int sum_of(const int* values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += values[i];
    return sum;
}

SPG_KERNEL add_up(const int* values, int count, int* total) { *total = sum_of(values, count); }

// Reads what a child of its own will have written: at an unknown time.
SPG_KERNEL reads_children(int count, int* values, int* total, unsigned long long* children)
{
    for (int i = 0; i < count; ++i) {
        SPG_LAUNCH(square, 1, 1, 0, cudaStreamFireAndForget)(values, i);
        count_child(children);
    }
    __threadfence();
    *total = sum_of(values, count);
}

// A later fire-and-forget child does not come after the earlier ones.
SPG_KERNEL later_child_adds_up(int count, int* values, int* total, unsigned long long* children)
{
    for (int i = 0; i < count; ++i) {
        SPG_LAUNCH(square, 1, 1, 0, cudaStreamFireAndForget)(values, i);
        count_child(children);
    }
    SPG_LAUNCH(add_up, 1, 1, 0, cudaStreamFireAndForget)(values, count, total);
    count_child(children);
}

// The tail does.
SPG_KERNEL tail_adds_up(int count, int* values, int* total, unsigned long long* children)
{
    SPG_LAUNCH(add_up, 1, 1, 0, cudaStreamTailLaunch)(values, count, total);
    count_child(children);
    for (int i = 0; i < count; ++i) {
        SPG_LAUNCH(square, 1, 1, 0, cudaStreamFireAndForget)(values, i);
        count_child(children);
    }
}

// So does what follows in a stream, a named one too.
SPG_KERNEL stream_adds_up(int count, int* values, int* total, unsigned long long* children)
{
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < count; ++i) {
        SPG_LAUNCH(square, 1, 1, 0, stream)(values, i);
        count_child(children);
    }
    SPG_LAUNCH(add_up, 1, 1, 0, stream)(values, count, total);
    count_child(children);
    cudaStreamDestroy(stream);
}

// A child's own children hold its tail up, and that of its parent.
SPG_KERNEL branch(int depth, int* leaves)
{
    if (depth == 0) {
        atomicAdd(leaves, 1);
        return;
    }
    for (int i = 0; i < 3; ++i) SPG_LAUNCH(branch, 1, 1, 0, cudaStreamFireAndForget)(depth - 1, leaves);
}

SPG_KERNEL copy_word(const int* from, int* to) { *to = *from; }

SPG_KERNEL tail_after_grandchildren(int depth, int* leaves, int* total)
{
    SPG_LAUNCH(copy_word, 1, 1, 0, cudaStreamTailLaunch)(leaves, total);
    SPG_LAUNCH(branch, 1, 1, 0, cudaStreamFireAndForget)(depth, leaves);
}
