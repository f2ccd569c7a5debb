// reference: the tasks that are launched, in plain C++, one thread.
//
// Layout   result uint64 [2]: tasks that were run, and the sum over all their items (in the kernels in many parts).
#include <cstdint>

extern "C" void launch_reference(int32_t tasks, int32_t items, uint64_t* result)
{
    result[0] = result[1] = 0;
    for (int32_t task = 0; task < tasks; ++task) {
        for (uint32_t item = 1; item <= (uint32_t)items; ++item) {
            uint32_t x = item;
            for (int round = 0; round < 4; ++round) {
                x ^= x >> 15;
                x *= 0x2c1b3c6du;
            }
            result[1] += x >> 8;
        }
        ++result[0];
    }
}
