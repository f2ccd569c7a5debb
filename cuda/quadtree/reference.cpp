// reference: a quadtree of points in plain C++, one thread, by recursion.
//
// Layout   point float [n][2], in [0, 1); node int32 [nodes][4]: begin, end, child, depth; order int32 [n]. See
//          tree.cuh. `node` needs room for `room` nodes. Returns the number of nodes, or -1 if there is no room.
// Idea     Finkel and Bentley, "Quad trees", 1974: a node with too many points deals them out to four children.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

struct Tree {
    const float* point;
    int32_t leaf, depth, room, nodes;
    int32_t (*node)[4];
    int32_t* order;

    int quadrant(int32_t p, int32_t depth) const
    {
        int result = 0;
        for (int axis = 0; axis < 2; ++axis) {
            const auto place = std::min((uint32_t)(point[2 * (int64_t)p + axis] * 65536.0f), 65535u);
            result |= (int)(place >> (15 - depth) & 1) << axis;
        }
        return result;
    }

    bool split(int32_t me)
    {
        const int32_t begin = node[me][0], end = node[me][1], level = node[me][3];
        node[me][2] = -1;
        if (end - begin <= leaf || level >= depth) return true;
        if (nodes + 4 > room) return false;
        const int32_t child = node[me][2] = nodes;
        nodes += 4;
        std::vector<int32_t> part[4];
        for (int32_t k = begin; k < end; ++k) part[quadrant(order[k], level)].push_back(order[k]);
        int32_t next = begin;
        for (int q = 0; q < 4; ++q) {
            node[child + q][0] = next;
            for (int32_t p : part[q]) order[next++] = p;
            node[child + q][1] = next;
            node[child + q][3] = level + 1;
        }
        for (int q = 0; q < 4; ++q)
            if (!split(child + q)) return false;
        return true;
    }
};

}  // namespace

extern "C" int32_t quadtree_reference(int32_t n, const float* point, int32_t leaf, int32_t depth, int32_t room,
                                      int32_t (*node)[4], int32_t* order)
{
    for (int32_t p = 0; p < n; ++p) order[p] = p;
    node[0][0] = 0, node[0][1] = n, node[0][3] = 0;
    Tree tree = {point, leaf, depth, room, 1, node, order};
    return tree.split(0) ? tree.nodes : -1;
}
