// checksum.cu: one number for the contents of a buffer, to see whether it has changed.
//
// Layout   `bytes` bytes at `data`, aligned to 8; the sum is added to `sum[0]`, which the host zeroes.
// Mapping  grid-stride over words of 8 bytes, a last partial word by thread 0; one atomic per warp.
// Contract the sum over all words i of mix(word + i * odd): mix is a bijection of 64 bits, so that one changed word
//          always changes the sum, and several do but for a chance of 2^-64. Integer sums have no order.
// Idea     Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (the mix).
#include "../common/warp.cuh"

static __device__ unsigned long long mix(unsigned long long word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

SPG_KERNEL spg_checksum(const unsigned char* __restrict__ data, long long bytes, unsigned long long* sum)
{
    const unsigned long long odd = 0x9E3779B97F4A7C15ull;
    const unsigned long long* words = reinterpret_cast<const unsigned long long*>(data);
    const long long count = bytes / 8, stride = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned long long own = 0;
    for (long long i = first; i < count; i += stride) own += mix(words[i] + (i + 1) * odd);
    if (first == 0 && bytes % 8) {
        unsigned long long last = 0;
        for (long long b = 0; b < bytes % 8; ++b)
            last |= static_cast<unsigned long long>(data[8 * count + b]) << (8 * b);
        own += mix(last + (count + 1) * odd);
    }
    own = lane_0_sum(own);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}
