// host-loop, host-packed, host-readback, graph: the host launches every task.
//
// Layout   result word64_t [2], see launch/task.cuh.
// Mapping  a thread per item, blocks of 128.
// Variants host-loop      one launch after another through PyCUDA: what a Python program pays;
//          host-packed    the same through cuda-bindings, arguments packed once: what is left of it without PyCUDA;
//          host-readback  after each launch the host reads 8 bytes back before it decides to go on;
//          graph          all launches recorded once as a CUDA graph, then one launch of it.
// Wins     where the host knows what comes next, which is most often; a graph where the same launches come again.
// Loses    host-readback on many small launches: a trip to the host each. It is what a level loop pays.
// Idea     CUDA programming guide, "CUDA graphs".
#include "../common/spg.cuh"
#include "task.cuh"

SPG_KERNEL launch_task(int items, unsigned long long* result) { run_task(items, result); }
