// task.cuh: what is launched, again and again: a task of `items` items that any number of threads can share.
//
// Layout   result word64_t [1 + SPG_SUMS]: tasks that were run, then parts of the sum of all their items.
// An item takes SPG_ROUNDS steps of which each needs the one before, about 15 ns a thread on an H200. All tasks have
// the same items, so that the sum is known; nothing is read, so that no cache can make one mechanism look better. The
// sum is in many words, a block adds to one of them: with a single word and an atomic per warp, tasks of many threads
// took turns at that word and never beat one thread each.
#pragma once
#include "../common/warp.cuh"

#define SPG_ROUNDS 4
#define SPG_TASK_BLOCK 128
#define SPG_SUMS 1024

// Multiplications alone could be folded into one by the compiler; with the shifts between they cannot.
__device__ __forceinline__ unsigned item_value(unsigned x)
{
    for (int round = 0; round < SPG_ROUNDS; ++round) {
        x ^= x >> 15;
        x *= 0x2c1b3c6du;
    }
    return x >> 8;
}

// This thread's items of a task that `threads` threads share.
__device__ __forceinline__ unsigned long long some_items(int items, long long thread, long long threads)
{
    unsigned long long sum = 0;
    for (long long i = thread; i < items; i += threads) sum += item_value((unsigned)i + 1);
    return sum;
}

// Adds up over a warp, an atomic on one of many words. All 32 lanes come together.
__device__ __forceinline__ void add_result(unsigned long long sum, unsigned long long* result)
{
    sum = lane_0_sum(sum);
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0 && sum) atomicAdd(result + 1 + warp % SPG_SUMS, sum);
}

// The task, by the grid of the calling kernel; its first thread counts it.
__device__ __forceinline__ void run_task(int items, unsigned long long* result)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread == 0) atomicAdd(result, 1ull);
    if (items > 0) add_result(some_items(items, thread, (long long)gridDim.x * blockDim.x), result);
}
