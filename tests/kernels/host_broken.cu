#include "common/spg.cuh"

SPG_KERNEL broken(int* y)
{
    y[0] = undeclared;
}
