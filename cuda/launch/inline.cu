// inline, flattened: no launches at all, to compare with: the same tasks by the threads that have them, or by all.
//
// Layout   result word64_t [2], see launch/task.cuh.
// Mapping  inline: a thread per task, blocks of 128, which does all its items one after another; flattened: the items
//          of all tasks cut into equal parts, a thread each, whichever task they belong to.
// Wins     inline: on small tasks; flattened: nearly always, where the sizes of all tasks are known before the launch
//          (here they are equal; else a prefix sum over them finds each thread its task).
// Loses    inline: on large tasks, as one thread works where thousands could; flattened: on tasks that arise from
//          tasks.
// Idea     inline: the loop that a launch would replace; flattened: Blelloch, "Programming parallel algorithms", 1996.
#include "../common/spg.cuh"
#include "task.cuh"

// The parent of fire-and-forget, doing the work itself.
SPG_KERNEL inline_tasks(int tasks, int items, unsigned long long* result)
{
    unsigned long long sum = 0;
    if ((int)(blockIdx.x * blockDim.x + threadIdx.x) < tasks) {
        atomicAdd(result, 1ull);
        sum = some_items(items, 0, 1);
    }
    add_result(sum, result);
}

SPG_KERNEL flattened_tasks(int tasks, int items, unsigned long long* result)
{
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long sum = 0;
    int mine = 0;
    for (long long task = thread; task < tasks; task += threads) ++mine;
    if (mine) atomicAdd(result, (unsigned long long)mine);
    if (items > 0) {
        const long long all = (long long)tasks * items;
        const int step = (int)(threads % items);
        int item = (int)(thread % items);  // i mod items, without a division for each
        for (long long i = thread; i < all; i += threads) {
            sum += item_value((unsigned)item + 1);
            item += step;
            if (item >= items) item -= items;
        }
    }
    add_result(sum, result);
}
