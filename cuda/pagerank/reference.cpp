// reference: PageRank by power iteration in plain C++, one thread, without weights.
//
// Layout   out-edges in CSR: row_ptr int64 [n + 1], col int32 [edges]. rank double [n], they add up to 1.
// Numbers  a vertex without out-edges spreads its rank over all vertices, which is also where the walk jumps to.
//          The iteration ends when the sum of all changes is at most `tolerance`. Returns the number of iterations.
// Idea     Page, Brin, Motwani and Winograd, 1999. This is `push`; the best kernels add up in-edges instead.
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" int32_t pagerank_reference(int32_t n, const int64_t* row_ptr, const int32_t* col, double damping,
                                      double tolerance, int32_t max_iterations, double* rank)
{
    std::vector<double> received(n);
    for (int32_t v = 0; v < n; ++v) rank[v] = 1.0 / n;
    for (int32_t iteration = 1; iteration <= max_iterations; ++iteration) {
        double dangling = 0;
        received.assign(n, 0);
        for (int32_t v = 0; v < n; ++v) {
            const int64_t degree = row_ptr[v + 1] - row_ptr[v];
            if (degree == 0) dangling += rank[v];
            for (int64_t e = row_ptr[v]; e < row_ptr[v + 1]; ++e) received[col[e]] += rank[v] / (double)degree;
        }
        double change = 0;
        for (int32_t v = 0; v < n; ++v) {
            const double fresh = (1 - damping) / n + damping * (received[v] + dangling / n);
            change += std::fabs(fresh - rank[v]);
            rank[v] = fresh;
        }
        if (change <= tolerance) return iteration;
    }
    return max_iterations;
}
