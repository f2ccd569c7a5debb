// Shared memory, atomics, vector loads, device malloc.
#include "common/warp.cuh"

// Transposes tiles through a padded two-dimensional shared array; block (32, 8).
SPG_KERNEL transpose(int rows, int columns, const value_t* in, value_t* out)
{
    SPG_SHARED_2D(value_t, tile, 32, 33);
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
    __syncthreads();
    const int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y)
        if (tx < rows && ty + j < columns) out[(ty + j) * rows + tx] = tile[threadIdx.x][threadIdx.y + j];
}

// Reverses a block's stretch in dynamic shared memory, counting in a shared variable.
SPG_KERNEL reverse(int* x, int* counts)
{
    SPG_DYNAMIC_SHARED(int, mine);
    SPG_SHARED_VAR(int, count);
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    mine[threadIdx.x] = x[at];
    __syncthreads();
    atomicAdd(&count, 1);
    x[at] = mine[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// What shared memory holds before anything is written.
SPG_KERNEL uninitialised(unsigned* out)
{
    SPG_SHARED(unsigned, words, 4);
    out[blockIdx.x * 2] = words[3];
    words[3] = 7;
    __syncthreads();
    out[blockIdx.x * 2 + 1] = words[3];
}

__device__ int scan_step(int value)  // a device function with a shared array of its own
{
    SPG_SHARED(int, line, 64);
    line[threadIdx.x] = value;
    __syncthreads();
    const int left = threadIdx.x ? line[threadIdx.x - 1] : 0;
    __syncthreads();
    return left;
}

SPG_KERNEL neighbours(int* out)
{
    const int once = scan_step(threadIdx.x + 1), twice = scan_step(once);
    out[threadIdx.x] = twice + 100 * __syncthreads_count(threadIdx.x % 3 == 0) + 10000 * __syncthreads_and(1) +
                       20000 * __syncthreads_or(threadIdx.x == 9) + 40000 * __syncthreads_and(threadIdx.x != 9);
}

SPG_KERNEL atomics(int n, int* i, unsigned* u, unsigned long long* l, float* f, double* d)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMin(&i[2], -t);
    atomicMax(&i[3], t);
    atomicXor(&i[4], t);
    atomicAdd(&u[0], 1u);
    atomicOr(&u[1], 1u << t % 32);
    atomicAnd(&u[2], ~(1u << t % 7));
    atomicInc(&u[3], 9u);
    atomicExch(&u[4], 5u);
    atomicAdd(&l[0], 1ull << 33);
    atomicMax(&l[1], (unsigned long long)t);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    atomicAdd_block(&d[1], 1.0);
    unsigned long long seen = l[2], expected;  // a CAS loop
    do {
        expected = seen;
        seen = atomicCAS(&l[2], expected, expected + 3);
    } while (seen != expected);
}

SPG_KERNEL vectors(const float4* in, double2* out)
{
    const float4 v = __ldg(in + threadIdx.x);
    const int4 w = make_int4(1, 2, 3, 4);
    __stcs(out + threadIdx.x, make_double2(v.x + v.y * w.y, v.z * w.z + v.w));
}

// Lists in device memory: *failed counts mallocs that gave nothing.
SPG_KERNEL heap(int bytes, int keep, unsigned* failed)
{
    int* p = (int*)malloc(bytes);
    if (!p) {
        atomicAdd(failed, 1u);
        return;
    }
    p[bytes / 4 - 1] = 1;
    if (!keep) free(p);
}

// A spin between blocks: each waits for its predecessor's flag.
SPG_KERNEL chained(volatile int* flags, int* order)
{
    const int b = blockIdx.x;
    if (threadIdx.x == 0) {
        if (b > 0)
            while (flags[b - 1] == 0) __nanosleep(20);
        order[b] = b > 0 ? order[b - 1] + 1 : 1;
        __threadfence();
        flags[b] = 1;
    }
}

// A lock, as one should not write it, but which must still end.
SPG_KERNEL locked(int* lock, int* sum)
{
    while (atomicCAS(lock, 0, 1) != 0) {}
    *sum += 1;
    __threadfence();
    atomicExch(lock, 0);
}

// The order in which threads ran.
SPG_KERNEL ticket(unsigned* next, unsigned* order)
{
    order[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1u);
}

// The order in which threads have done so many relaxed loads, each of which may be part of a spin.
SPG_KERNEL ticket_after_loads(const int* word, int loads, unsigned* next, unsigned* order)
{
    int sum = 0;
    for (int i = 0; i < loads; ++i) sum += load_grid(word);
    order[threadIdx.x] = atomicAdd(next, 1u) + sum;
}

// As many threads as counted it in static and in dynamic shared memory.
SPG_KERNEL both_kinds(int* count)
{
    SPG_DYNAMIC_SHARED(int, mine);
    SPG_SHARED(int, fixed, 10240);
    fixed[threadIdx.x] = 1;
    mine[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned i = 0; i < blockDim.x; ++i) *count += fixed[i] * mine[i];
}
