// reference: lengths of shortest paths in plain C++, one thread: Dijkstra with a heap.
//
// Layout   out-edges in CSR: row_ptr int64 [n + 1], col int32 [edges], weight float [edges], none below 0. length float
//          [n], infinite where no path leads.
// Numbers  sums are float32, added from the source on, as in the kernels. Rounding never reverses the order of two
//          lengths, so every order of relaxing edges ends with the same bits.
// Idea     Dijkstra, 1959. The heap gives the nearest vertex next; the kernels relax all near vertices together.
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

extern "C" void sssp_reference(int32_t n, const int64_t* row_ptr, const int32_t* col, const float* weight,
                               int32_t source, float* length)
{
    using Entry = std::pair<float, int32_t>;  // length, vertex
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> nearest;
    for (int32_t v = 0; v < n; ++v) length[v] = std::numeric_limits<float>::infinity();
    length[source] = 0;
    nearest.push({0, source});
    while (!nearest.empty()) {
        const auto [here, v] = nearest.top();
        nearest.pop();
        if (here > length[v]) continue;  // an old entry: v was reached by a shorter path meanwhile
        for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) {
            const float there = here + weight[e];
            if (there >= length[col[e]]) continue;
            length[col[e]] = there;
            nearest.push({there, col[e]});
        }
    }
}
