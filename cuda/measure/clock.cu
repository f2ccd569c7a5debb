// clock.cu: the three kernels that the clock itself is made of.
//
// spg_gate    holds the stream until the host opens it, so that events and launches queued behind it run back
//             to back on the GPU and the host's launch cost (7-8 us from Python) is not in the measured time.
// spg_empty   does nothing: its time under the same clock is the floor that no row of a table can be below.
// spg_read    reads a buffer and keeps nothing. Over a large buffer it measures the read ceiling; over one of
//             several times the L2 it evicts the caches, by clean lines (dirty lines would be written back at
//             the next kernel's expense).
//
// Layout   buffers of float4 (16 bytes), `count` of them.
// Mapping  in strides of the grid, eight independent 16-byte loads in flight per thread, because one load per thread
//          leaves the memory system idle between round trips.
#include "../common/spg.cuh"

// One thread. `flag` is mapped host memory that only the host writes (hence volatile); it counts up, so that a
// late gate of an earlier sample can never be opened by a reset. Gives up after `limit_ns` and says so in
// `timed_out`, because a gate that stays closed would hang the GPU for every process on it.
SPG_KERNEL spg_gate(const volatile unsigned* flag, unsigned ticket, unsigned* timed_out, long long limit_ns)
{
    if (threadIdx.x != 0) return;
    const long long start = spg_nanoseconds();
    while (static_cast<int>(*flag - ticket) < 0) {
        if (spg_nanoseconds() - start > limit_ns) {
            *timed_out = 1;
            return;
        }
        __nanosleep(100);
    }
}

SPG_KERNEL spg_empty() {}

SPG_KERNEL spg_read(const float4* __restrict__ buffer, long long count, float* sink)
{
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (; i + 7 * stride < count; i += 8 * stride) {
        float4 part[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) part[k] = buffer[i + k * stride];
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += part[k].x + part[k].y + part[k].z + part[k].w;
    }
    for (; i < count; i += stride) {
        const float4 part = buffer[i];
        sum += part.x + part.y + part.z + part.w;
    }
    // The buffer holds zeros, which the compiler cannot know: the store never happens but keeps the loads.
    if (sum == 12345.0f) *sink = sum;
}
