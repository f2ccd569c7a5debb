// reference: breadth-first search in plain C++, one thread. What every kernel of this folder computes.
//
// Layout   out-edges in CSR: row_ptr int64 [n + 1], col int32 [edges]. level int32 [n]: the least number of edges from
//          the source, -1 where no path leads.
// Idea     a queue holds the vertices in the order of their levels. The kernels take all of one level at the same time.
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" void bfs_reference(int32_t n, const int64_t* row_ptr, const int32_t* col, int32_t source, int32_t* level)
{
    for (int32_t v = 0; v < n; ++v) level[v] = -1;
    std::vector<int32_t> queue = {source};
    level[source] = 0;
    for (std::size_t next = 0; next < queue.size(); ++next) {
        const int32_t v = queue[next];
        for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const int32_t neighbour = col[e];
            if (level[neighbour] >= 0) continue;  // found before
            level[neighbour] = level[v] + 1;
            queue.push_back(neighbour);
        }
    }
}
