// reference: quadratic Bezier curves in plain C++, one thread: how many points each needs, and the points.
//
// Layout   control float [curves][3][2]; count int32 [curves]; points double [sum of count][2], curve after curve.
// Numbers  see curve.cuh for the criterion and why it is exact in double precision.
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void bezier_count_reference(int32_t curves, const float* control, int32_t* count)
{
    for (int32_t i = 0; i < curves; ++i) {
        const float* p = control + 6 * (int64_t)i;
        const double ax = (double)p[2] - p[0], ay = (double)p[3] - p[1];  // first to middle
        const double bx = (double)p[4] - p[0], by = (double)p[5] - p[1];  // the chord
        const double cross = std::fabs(ax * by - ay * bx), square = bx * bx + by * by;
        if (square == 0)
            count[i] = ax == 0 && ay == 0 ? 8 : 256;
        else
            count[i] = (int32_t)std::min(8 + 256 * cross / square, 256.0);
    }
}

extern "C" void bezier_points_reference(int32_t curves, const float* control, const int32_t* count, double* points)
{
    for (int32_t i = 0; i < curves; ++i) {
        const float* p = control + 6 * (int64_t)i;
        for (int32_t j = 0; j < count[i]; ++j) {
            const double t = (double)j / (count[i] - 1), s = 1 - t;
            for (int axis = 0; axis < 2; ++axis)
                *points++ = s * s * p[axis] + 2 * t * s * p[2 + axis] + t * t * p[4 + axis];
        }
    }
}
