// cooperative_groups/reduce.h for the host device.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {
#define SPG_OPERATOR(name, expression)                           \
    template <class T> struct name {                             \
        T operator()(T a, T b) const { return (T)(expression); } \
    };
SPG_OPERATOR(plus, a + b)
SPG_OPERATOR(less, b < a ? b : a)
SPG_OPERATOR(greater, a < b ? b : a)
SPG_OPERATOR(bit_and, (a & b))
SPG_OPERATOR(bit_or, a | b)
SPG_OPERATOR(bit_xor, a ^ b)

template <class T, class F>
inline T reduce(const coalesced_group& group, T value, F combine, spg_site here = SPG_HERE)
{
    return spg::reduce("cooperative_groups::reduce", group.spg_mask(), value, combine, here);
}
}  // namespace cooperative_groups
