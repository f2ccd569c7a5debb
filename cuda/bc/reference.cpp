// reference: betweenness from one source in plain C++, one thread: the two passes of Brandes.
//
// Layout   out-edges in CSR: row_ptr int64 [n + 1], col int32 [edges]. dependency double [n]: for each vertex v the sum
//          over all targets of the share of shortest paths from the source that lead through v, ends not counted.
// Numbers  counts of paths are double, without the scaling of graph/paths.cuh: for small graphs.
// Idea     Brandes, "A faster algorithm for betweenness centrality", 2001.
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" void bc_reference(int32_t n, const int64_t* row_ptr, const int32_t* col, int32_t source, double* dependency)
{
    std::vector<int32_t> level(n, -1), order = {source};
    std::vector<double> paths(n, 0);
    level[source] = 0;
    paths[source] = 1;
    for (std::size_t next = 0; next < order.size(); ++next) {  // forward: count shortest paths, level by level
        const int32_t v = order[next];
        for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const int32_t w = col[e];
            if (level[w] < 0) {
                level[w] = level[v] + 1;
                order.push_back(w);
            }
            if (level[w] == level[v] + 1) paths[w] += paths[v];
        }
    }
    for (int32_t v = 0; v < n; ++v) dependency[v] = 0;
    for (std::size_t next = order.size(); next-- > 1;) {  // backward, without the source: sum over the successors
        const int32_t v = order[next];
        for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const int32_t w = col[e];
            if (level[w] == level[v] + 1) dependency[v] += paths[v] / paths[w] * (1 + dependency[w]);
        }
    }
}
