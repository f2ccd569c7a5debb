// csr-tile: Y = A X, A in CSR, every group of lanes the same work whatever the rows are like.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols][k], y [rows][k], row-major.
//          (Column-major: X is transposed into a workspace first and Y out of one afterwards, in the same run.)
//          team_row int32 [teams + 1]: the first row of each team, made once per matrix by csr_tile_rows.
//          carry [blocks][k]: what the last, unfinished row of each block has so far.
// Mapping  Rows' ends and nonzeros are merged into one list of rows + nnz items, in order; a team of SPG_LANES lanes
//          takes SPG_ITEMS of them. A block of SPG_TEAMS teams stages its entries and row ends in shared memory,
//          in whole lines. Lanes go over the columns, 16 bytes each (see dense.cuh); a team walks over its entries,
//          SPG_AHEAD rows of X on their way at a time, across the ends of rows, and writes a row of Y at each end.
// Wins     on short rows (loads run on across rows' ends) and on skewed ones (hubs are cut).
// Loses    a little on even, long rows, where csr-row needs neither table nor shared memory.
// Idea     Merrill and Garland, "Merge-based parallel sparse matrix-vector multiplication", SC 2016; for several
//          columns Yang, Buluc and Owens, Euro-Par 2018 (merge-based SpMM), which cuts by nonzeros alone.
#include "dense.cuh"
#include "transpose.cuh"

#ifndef SPG_ITEMS
#error "the host function defines SPG_ITEMS"
#endif
#define SPG_TEAMS (SPG_BLOCK / SPG_LANES)
#define SPG_STAGED (SPG_TEAMS * SPG_ITEMS)

// Rows that are cut. A row that begins in one team and ends in another is added up in shared memory. One that leaves
// the block leaves its part in `carry`, which csr_tile_carry adds: one atomic per row, column and 32 blocks.

// team_row[t]: how many rows end before item t * items of the merged list.
SPG_KERNEL csr_tile_rows(index_t rows, long long total, index_t teams, index_t items,
                         const offset_t* __restrict__ row_ptr, index_t* __restrict__ team_row)
{
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t > teams) return;
    const long long wanted = t * items < total ? t * items : total;
    index_t low = 0, high = rows;
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if ((long long)row_ptr[middle + 1] + middle < wanted)  // the end of row i is item row_ptr[i + 1] + i
            low = middle + 1;
        else
            high = middle;
    }
    team_row[t] = low;
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, 1)
    csr_tile(index_t k, long long total, index_t teams, const index_t* __restrict__ team_row,
             value_t* __restrict__ carry, const offset_t* __restrict__ row_ptr, const index_t* __restrict__ col,
             const value_t* __restrict__ val, const value_t* __restrict__ x, value_t* __restrict__ y)
{
    SPG_SHARED(index_t, columns, SPG_STAGED + SPG_AHEAD);  // read beyond the end, without effect
    SPG_SHARED(value_t, values, SPG_STAGED + SPG_AHEAD);
    SPG_SHARED(int, ends, SPG_STAGED);
    SPG_SHARED(pieces_t, rest, SPG_BLOCK);  // what each team has of the row that it does not finish
    const long long team0 = (long long)blockIdx.x * SPG_TEAMS;
    const long long team1 = team0 + SPG_TEAMS < teams ? team0 + SPG_TEAMS : teams;
    const long long last_item = team1 * SPG_ITEMS < total ? team1 * SPG_ITEMS : total;
    const index_t row0 = team_row[team0], row1 = team_row[team1];
    const long long entry0 = team0 * SPG_ITEMS - row0;  // first entry of the block
    const int entries = (int)(last_item - row1 - entry0);
    for (int i = threadIdx.x; i < entries; i += SPG_BLOCK) {
        columns[i] = spg_stream(col + entry0 + i);
        values[i] = spg_stream(val + entry0 + i);
    }
    for (int i = threadIdx.x; i < row1 - row0; i += SPG_BLOCK) ends[i] = (int)(row_ptr[row0 + i + 1] - entry0);
    __syncthreads();

    const index_t first = first_column();
    const long long team = team0 + threadIdx.x / SPG_LANES;
    index_t row = 0, stop_row = 0;
    pieces_t sum, head;  // head: the team's first row, which may have begun before it
    sum.clear();
    head.clear();
    if (team < team1) {
        row = team_row[team];
        stop_row = team_row[team + 1];
        const long long items = (team + 1) * SPG_ITEMS < total ? (team + 1) * SPG_ITEMS : total;
        const int stop = (int)(items - stop_row - entry0);
        const index_t begun = row;
        int end = row < stop_row ? ends[row - row0] : stop + SPG_AHEAD;  // none left: never
        for (int at = (int)(team * SPG_ITEMS - row - entry0); at < stop; at += SPG_AHEAD) {
            pieces_t piece[SPG_AHEAD];
            value_t factor[SPG_AHEAD];
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) {
                const bool there = at + u < stop;
                factor[u] = there ? values[at + u] : 0;
                piece[u].load(x + (long long)columns[at + u] * k, first, k, there);
            }
#pragma unroll
            for (int u = 0; u < SPG_AHEAD; ++u) {
                while (end <= at + u) {  // rows that end before this entry
                    if (row == begun)
                        head = sum;
                    else
                        sum.store(y + (long long)row * k, first, k);
                    sum.clear();
                    ++row;
                    end = row < stop_row ? ends[row - row0] : stop + SPG_AHEAD;
                }
                sum.add(factor[u], piece[u]);  // beyond the last entry: 0 x 0
            }
        }
        for (; row < stop_row; ++row) {
            if (row == begun)
                head = sum;
            else
                sum.store(y + (long long)row * k, first, k);
            sum.clear();
        }
        row = begun;
    }
    rest[threadIdx.x] = sum;
    __syncthreads();
    if (team >= team1) return;
    // The rests of the teams before this one that end in the same row.
    if (row < stop_row) {
        long long other = team - 1;
        for (int there = (int)threadIdx.x - SPG_LANES; other >= team0; --other, there -= SPG_LANES) {
            head.add(rest[there]);
            if (team_row[other] < row) break;  // it finished a row: its rest is the first of this one
        }
        head.store(y + (long long)row * k, first, k);
    }
    if (team == team1 - 1) {  // what the block leaves
        sum = rest[threadIdx.x];
        long long other = team;
        for (int there = (int)threadIdx.x - SPG_LANES; other > team0 && team_row[other] == stop_row;
             --other, there -= SPG_LANES)
            sum.add(rest[there]);
        sum.store(carry + (long long)blockIdx.x * k, first, k);
    }
}

// A team per block of csr_tile: the first of at most 32 whose rests belong to one row adds them up.
SPG_KERNEL csr_tile_carry(index_t rows, index_t k, index_t teams, index_t blocks, const index_t* __restrict__ team_row,
                          const value_t* __restrict__ carry, value_t* y)
{
    const long long b = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / SPG_LANES;
    if (b >= blocks) return;
    auto row_of = [&](long long block) {
        const long long team = (block + 1) * SPG_TEAMS;
        return team_row[team < teams ? team : teams];
    };
    const index_t row = row_of(b);
    if (row >= rows) return;  // the last block leaves nothing
    if (b % 32 != 0 && row_of(b - 1) == row) return;
    const index_t first = first_column();
    pieces_t sum;
    sum.clear();
    for (long long other = b; other < blocks && (other == b || (other % 32 != 0 && row_of(other) == row)); ++other) {
        pieces_t piece;
        piece.load(carry + other * k, first, k, true);
        sum.add(piece);
    }
#pragma unroll
    for (int i = 0; i < SPG_VECS; ++i)
#pragma unroll
        for (int j = 0; j < SPG_VEC; ++j) {
            const index_t column = first + i * SPG_LANES * SPG_VEC + j;
            if (column < k) atomicAdd(y + (long long)row * k + column, sum.p[i].v[j]);
        }
}
