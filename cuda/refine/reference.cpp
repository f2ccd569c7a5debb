// reference: adaptive refinement of a field in plain C++, one thread, by recursion.
//
// Layout   front double [fronts][5] and the codes of cells: see field.cuh. cell uint32 [room]: those that are not
//          split. Returns how many there are; of more than `room` only the first are written.
// Numbers  double precision, in the order of field.cuh; compile without fused operations (-ffp-contract=off).
#include <algorithm>
#include <cstdint>

namespace {

struct Field {
    int32_t fronts;
    const double* front;
    double tolerance;
    int32_t depth;

    double value(double x, double y) const
    {
        double sum = 0;
        for (int32_t k = 0; k < fronts; ++k) {
            const double* f = front + 5 * (int64_t)k;
            const double dx = x - f[0], dy = y - f[1];
            const double s = std::clamp((dx * dx + dy * dy - f[2]) * f[3], -1.0, 1.0);
            sum += f[4] * (s * (1.5 - 0.5 * (s * s)));
        }
        return sum;
    }

    // Whether the field varies too much over the cell at (x, y), whose side is 2^-level: 3 x 3 values tell.
    bool steep(double x, double y, int32_t level) const
    {
        const double step = 1.0 / (double)(2u << level);
        double least = value(x, y), most = least;
        for (int k = 1; k < 9; ++k) {
            const double v = value(x + k % 3 * step, y + k / 3 * step);
            least = std::min(least, v);
            most = std::max(most, v);
        }
        return most - least > tolerance;
    }
};

void visit(const Field& field, uint32_t code, double x, double y, int32_t level, int64_t room, uint32_t* cell,
           int64_t& count)
{
    const int32_t base = 3;  // coarser cells are always split
    if (level >= field.depth || (level >= base && !field.steep(x, y, level))) {
        if (count < room) cell[count] = code;
        ++count;
        return;
    }
    const double half = 1.0 / (double)(2u << level);
    for (uint32_t q = 0; q < 4; ++q)
        visit(field, 4 * code + q, x + (q & 1) * half, y + (q >> 1) * half, level + 1, room, cell, count);
}

}  // namespace

extern "C" int64_t refine_reference(int32_t fronts, const double* front, double tolerance, int32_t depth, int64_t room,
                                    uint32_t* cell)
{
    int64_t count = 0;
    visit({fronts, front, tolerance, depth}, 1, 0, 0, 0, room, cell, count);
    return count;
}
