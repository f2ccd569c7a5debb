// csr-subwarp: y = A x, A in CSR, SPG_THREADS (2, 4, 8, 16 or 32) threads per row.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows].
// Mapping  SPG_THREADS neighbouring threads of a warp are a team, the 32 / SPG_THREADS teams take neighbouring rows,
//          and each team SPG_ROWS rows so. The threads of a team read four entries each in one read of 16 bytes,
//          from the multiple of 4 at or below the row's begin; entries outside the row are omitted. A thread asks
//          for SPG_QUADS such reads of each of its rows before it uses the first; what is longer is done in a loop.
//          The host picks the least number of threads that does a row of mean length in one step.
// Wins     on rows of about equal length, short or long: no idle lanes as in csr-vector, no scattered reads as
//          in csr-scalar, many rows in flight per warp.
// Loses    on skewed rows: a warp waits for its longest row.
// Idea     Reguly and Giles, "Efficient sparse matrix-vector multiplication on cache-based GPUs", InPar 2012.
#include "../common/spg.cuh"
#include "quad.cuh"

// SPG_PER_SM: threads on an SM that the compiler leaves registers for.
#if !defined(SPG_THREADS) || !defined(SPG_ROWS) || !defined(SPG_QUADS) || !defined(SPG_BLOCK) || !defined(SPG_PER_SM)
#error "the host function defines SPG_THREADS, SPG_ROWS, SPG_QUADS, SPG_BLOCK and SPG_PER_SM"
#endif

constexpr unsigned TEAMS = 32 / SPG_THREADS;
constexpr unsigned SPAN = 4 * SPG_THREADS;  // entries that a team reads together
// Sums that a thread keeps and writes: thread j of a team those of the team's rows j, j + SPG_THREADS, ...
constexpr int KEPT = (SPG_ROWS + SPG_THREADS - 1) / SPG_THREADS;

// Sum over a team, in all its threads. All 32 lanes call it.
__device__ __forceinline__ value_t team_sum(value_t sum)
{
#pragma unroll
    for (int distance = SPG_THREADS / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(SPG_FULL_WARP, sum, distance);
    return sum;
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_PER_SM) / SPG_BLOCK)
    csr_subwarp(index_t rows, offset_t nnz, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
                const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    const long long warp = ((long long)blockIdx.x * SPG_BLOCK + threadIdx.x) / 32;
    if (warp * (TEAMS * SPG_ROWS) >= rows) return;  // the whole warp together: the shuffles below need all lanes
    const unsigned lane = threadIdx.x % 32, seat = lane % SPG_THREADS;
    const unsigned first = (unsigned)warp * (TEAMS * SPG_ROWS) + lane / SPG_THREADS;  // the team's first row
    const offset_t inside = nnz & ~(offset_t)3;  // quads that begin below it are within the arrays

    offset_t begin[SPG_ROWS], end[SPG_ROWS];
#pragma unroll
    for (int j = 0; j < SPG_ROWS; ++j) {
        begin[j] = end[j] = 0;  // rows beyond the last are empty
        if (first + j * TEAMS < (unsigned)rows) {
            begin[j] = row_ptr[first + j * TEAMS];
            end[j] = row_ptr[first + j * TEAMS + 1];
        }
    }
    index_quad c[SPG_ROWS][SPG_QUADS];
    value_quad v[SPG_ROWS][SPG_QUADS];
    unsigned skip[SPG_ROWS], stop[SPG_ROWS];  // the row's places, counted from the multiple of 4 below
    bool more = false;                        // than the reads that follow bring
#pragma unroll
    for (int j = 0; j < SPG_ROWS; ++j) {
        const offset_t base = begin[j] & ~(offset_t)3;
        skip[j] = (unsigned)(begin[j] - base);
        stop[j] = (unsigned)((end[j] < inside ? end[j] : inside) - base);
        more |= stop[j] > SPAN * SPG_QUADS || end[j] > inside;
#pragma unroll
        for (int q = 0; q < SPG_QUADS; ++q) {
            const unsigned k = 4 * seat + q * SPAN;
            c[j][q] = stream_quad_if(col, (long long)base + k, k < stop[j]);
            v[j][q] = stream_quad_if(val, (long long)base + k, k < stop[j]);
        }
    }
    value_t factor[SPG_ROWS][SPG_QUADS][4];
#pragma unroll
    for (int j = 0; j < SPG_ROWS; ++j)
#pragma unroll
        for (int q = 0; q < SPG_QUADS; ++q)
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                const unsigned k = 4 * seat + q * SPAN + u;
                const bool wanted = k >= skip[j] && k < stop[j];
                factor[j][q][u] = spg_gather_if(x + c[j][q].at[u], wanted);
                if (!wanted) v[j][q].at[u] = 0;
            }
    value_t kept[KEPT] = {};
#pragma unroll
    for (int j = 0; j < SPG_ROWS; ++j) {
        value_t sum = 0;
#pragma unroll
        for (int q = 0; q < SPG_QUADS; ++q)
#pragma unroll
            for (int u = 0; u < 4; ++u) sum += v[j][q].at[u] * factor[j][q][u];
        sum = team_sum(sum);
        if (seat == j % SPG_THREADS) kept[j / SPG_THREADS] = sum;
    }
    // Longer rows, and the matrix's last entries, of which a whole quad would be read beyond the arrays. The row
    // offsets are read again: kept, they would take registers from the loads above.
    if (__any_sync(SPG_FULL_WARP, more))
#pragma unroll 1
        for (unsigned j = 0; j < SPG_ROWS; ++j) {
            const unsigned row = first + j * TEAMS;
            value_t sum = 0;
            if (row < (unsigned)rows) {
                const long long from = row_ptr[row], to = row_ptr[row + 1];
                long long e = (from & ~3LL) + SPG_QUADS * SPAN + 4 * seat;
                for (; e < to && e < inside; e += SPAN) {
                    const index_quad at = stream_quad(col, e);
                    const value_quad by = stream_quad(val, e);
#pragma unroll
                    for (int u = 0; u < 4; ++u)
                        if (e + u < to) sum += by.at[u] * x[at.at[u]];
                }
                for (e = (from < inside ? inside : from) + seat; e < to; e += SPG_THREADS) sum += val[e] * x[col[e]];
            }
            sum = team_sum(sum);
#pragma unroll
            for (unsigned i = 0; i < KEPT; ++i)
                if (seat + i * SPG_THREADS == j) kept[i] += sum;
        }
#pragma unroll
    for (unsigned i = 0; i < KEPT; ++i) {
        const unsigned j = seat + i * SPG_THREADS;
        if (j < SPG_ROWS && first + j * TEAMS < (unsigned)rows) y[first + j * TEAMS] = kept[i];
    }
}
