// reference: connected components in plain C++, one thread. What every kernel of this folder computes.
//
// Layout   edges in CSR: row_ptr int64 [n + 1], col int32 [edges]; their directions do not count. label int32 [n]: the
//          least vertex of each vertex's component.
// Idea     a forest of disjoint sets (Galler and Fischer, 1964). A tree's root is its least vertex; an edge joins two
//          trees, the larger root beneath the smaller.
#include <cstdint>

static int32_t root_of(int32_t v, int32_t* parent)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];  // to its grandparent: paths become shorter with every walk
        v = parent[v];
    }
    return v;
}

extern "C" void cc_reference(int32_t n, const int64_t* row_ptr, const int32_t* col, int32_t* label)
{
    for (int32_t v = 0; v < n; ++v) label[v] = v;
    for (int32_t v = 0; v < n; ++v) {
        for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const int32_t a = root_of(v, label), b = root_of(col[e], label);
            if (a < b)
                label[b] = a;
            else
                label[a] = b;
        }
    }
    for (int32_t v = 0; v < n; ++v) label[v] = root_of(v, label);
}
