// csr-segmented: y = A x, A in CSR, equal runs of entries to warps, segmented sums; cut rows are put together.
//
// Layout   row_ptr offset_t [rows + 1], col int32 [nnz], val [nnz]; x [cols], y [rows], zeroed before the launch.
//          tile_row int32 [tiles + 1]: the first row that begins in each tile or after it, made once per matrix.
// Mapping  a warp takes a tile of 32 * SPG_STEPS consecutive entries, a lane per entry and step. Where they are needs
//          no look-up, so entries and table are loaded together, and x and row offsets together when those are
//          there. Where a row begins in the tile, its number goes to the entry's place in shared memory (rows without
//          entries begin nowhere). Then step by step a scan that stops at row begins leaves, in the last lane of each
//          row, the sum of the row's entries; a row that goes on in the next step is carried there. Rows that are in
//          one tile are stored; of others each tile adds its part by an atomic.
// Wins     where rows are of very different lengths: every warp has the same work whatever the rows are like, waits
//          for no other warp, and little shared memory leaves L1 to x.
// Loses    where rows are even: a kernel that gives rows to threads has less to do per entry.
// Idea     the segmented reduction of Bell and Garland, SC 2009; row numbers from row begins as in load-balancing
//          search (Baxter, moderngpu, 2013).
#include "../common/stream.cuh"
#include "../common/warp.cuh"
#ifdef SPG_ONE_LAUNCH
#include "../common/prefetch.cuh"
#include "../common/scan.cuh"
#endif

// SPG_PER_SM: threads on an SM that the compiler leaves registers for.
#if !defined(SPG_STEPS) || !defined(SPG_BLOCK) || !defined(SPG_PER_SM)
#error "the host function defines SPG_STEPS, SPG_BLOCK and SPG_PER_SM"
#endif
#define TILE (32 * SPG_STEPS)
// Where more rows begin in a tile, nearly all are empty: the row of each entry is searched for, instead of looking at
// all rows. 16 bits hold the numbers of fewer ones.
#define SPG_WIDE 2048

#ifdef SPG_ONE_LAUNCH
// SPG_ONE_LAUNCH is for matrices so small that zeroing y, which is part of the timed run, is a good part of the time. y
// need not be zeroed; parts scan_word_t [1 + tiles * WORDS] is zero when made and left zero, its first word counts
// blocks.
//
// Each tile leaves its part of a row that goes on in `parts`, and the tile where the row ends waits for the parts, adds
// them up and takes them away again. It waits for tiles of lower number only, and a block's number is the order in
// which it started, by a ticket. SPG_INDEX_ORDER takes blockIdx, and so relies on blocks starting in that order, which
// no manual promises: it is there to time the ticket. Part and flag are in one word, so that a relaxed store publishes
// both.

constexpr int WORDS = sizeof(value_t) / 4;  // flag << 32 | 32 bits of a part
// Parts that a lane loads together.
#define SPG_PARTS 4

__device__ __forceinline__ void publish_part(scan_word_t* parts, long long tile, value_t part)
{
    unsigned bits[WORDS];
    memcpy(bits, &part, sizeof part);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) store_grid(parts + tile * WORDS + w, 1ull << 32 | bits[w]);
}

// Sum of the parts of tiles from `tile` on in steps of 32 below `end`: each is waited for, and taken away.
__device__ __forceinline__ value_t take_parts(scan_word_t* parts, long long tile, long long end)
{
    value_t sum = 0;
    for (; tile < end; tile += 32 * SPG_PARTS) {
        scan_word_t word[SPG_PARTS][WORDS];
#pragma unroll
        for (int u = 0; u < SPG_PARTS; ++u)
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                word[u][w] = tile + 32 * u < end ? load_grid(parts + (tile + 32 * u) * WORDS + w) : 1ull << 32;
#pragma unroll
        for (int u = 0; u < SPG_PARTS; ++u) {
            unsigned bits[WORDS];
#pragma unroll
            for (int w = 0; w < WORDS; ++w) {
                scan_word_t* const at = parts + (tile + 32 * u) * WORDS + w;
                while (word[u][w] == 0) {
                    spin_pause();
                    word[u][w] = load_grid(at);
                }
                if (tile + 32 * u < end) store_grid(at, 0ull);
                bits[w] = (unsigned)word[u][w];
            }
            value_t part;
            memcpy(&part, bits, sizeof part);
            sum += part;
        }
    }
    return sum;
}
#endif

// The first row from `low` on that begins at entry `e` or later; `high` if none below does.
__device__ __forceinline__ index_t first_row_from(const offset_t* __restrict__ row_ptr, index_t low, index_t high,
                                                  long long e)
{
    while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (row_ptr[middle] < e)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The table: entry t is the first row that begins at entry t * TILE or later.
SPG_KERNEL csr_segmented_table(index_t rows, index_t tiles, const offset_t* __restrict__ row_ptr, index_t* tile_row)
{
    const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;
#ifdef SPG_ONE_LAUNCH
    const index_t end = tile == tiles ? rows : 0;  // the last tile also has the empty rows at the end
#else
    const index_t end = 0;
#endif
    if (tile <= tiles) tile_row[tile] = first_row_from(row_ptr, end, rows, tile * TILE);
}

SPG_KERNEL __launch_bounds__(SPG_BLOCK, SPG_RESIDENT(SPG_PER_SM) / SPG_BLOCK)
    csr_segmented(offset_t nnz, const index_t* __restrict__ tile_row, const offset_t* __restrict__ row_ptr,
                  const index_t* __restrict__ col, const value_t* __restrict__ val, const value_t* __restrict__ x,
                  value_t* y
#ifdef SPG_ONE_LAUNCH
                  ,
                  scan_word_t* parts
#endif
    )
{
    SPG_SHARED(unsigned, heads, SPG_BLOCK* SPG_STEPS / 2);  // two numbers of 16 bits in each
    const unsigned lane = threadIdx.x % 32;
#if defined(SPG_ONE_LAUNCH) && !defined(SPG_INDEX_ORDER)
    const unsigned block = start_order(reinterpret_cast<unsigned*>(parts));
#else
    const unsigned block = blockIdx.x;
#endif
#ifdef SPG_ONE_LAUNCH
    ++parts;
#endif
    const long long tile = ((long long)block * SPG_BLOCK + threadIdx.x) / 32;
    if (tile * TILE >= nnz) return;  // a warp goes or stays as a whole
    const offset_t first = (offset_t)(tile * TILE);
    const unsigned count = nnz - first < TILE ? (unsigned)(nnz - first) : TILE;
    unsigned* const words = heads + threadIdx.x / 32 * (TILE / 2);
    unsigned short* const head = reinterpret_cast<unsigned short*>(words);

    const index_t row_0 = tile_row[tile], row_1 = tile_row[tile + 1];
#ifdef SPG_ONE_LAUNCH
    value_t leading = 0;      // this tile's part of a row that began before and ends here, in one lane
    bool reaches_in = false;  // whether the tile begins within a row
    // A lane that waits for a part would first wait for memory, where the L2 has lost the word.
    if (lane == 0) prefetch(parts + tile * WORDS);
#endif
    const index_t* const own_col = col + first + lane;
    const value_t* const own_val = val + first + lane;
    index_t c[SPG_STEPS];
    value_t v[SPG_STEPS];
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) c[s] = spg_stream_if(own_col + 32 * s, 32 * s + lane < count);
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) v[s] = spg_stream_if(own_val + 32 * s, 32 * s + lane < count);
#pragma unroll
    for (int s = 0; s < SPG_STEPS / 2; ++s) words[32 * s + lane] = 0;
    __syncwarp();
    // The first 32 rows that begin here are asked for ahead of x, and looked at after it has been asked for.
    // Unsigned, since a lane's number goes up to 63 beyond the last row, which may be 2^31 - 2.
    unsigned row = (unsigned)row_0 + lane;
    const unsigned row_end = (unsigned)row_1;
    const offset_t begin = spg_gather_if(row_ptr + row, row < row_end);
    const offset_t next = spg_gather_if(row_ptr + row + 1, row < row_end);
#ifdef SPG_ONE_LAUNCH
    const offset_t came_from = row_0 > 0 ? row_ptr[row_0 - 1] : 0;
    const bool goes_on = row_ptr[row_1] > first + (offset_t)count;
#endif
    value_t factor[SPG_STEPS];
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) factor[s] = spg_gather_if(x + c[s], 32 * s + lane < count);

    const auto empty_row = [&](unsigned r) {
#ifdef SPG_ONE_LAUNCH
        y[r] = 0;
#endif
    };
    // The part of a row that began before this tile and ends in it, of which this lane has the sum.
    const auto end_of_leading = [&](value_t part) {
#ifdef SPG_ONE_LAUNCH
        leading = part;
#else
        atomicAdd(y + row_0 - 1, part);
#endif
    };
    // An empty row begins where the next one does, and is omitted. Rows are counted from 1 for row_0; 0 is the row
    // that goes on from the tile before.
    if (row_1 - row_0 <= SPG_WIDE) {
        if (next > begin)
            head[begin - first] = (unsigned short)(lane + 1);
        else if (row < row_end)
            empty_row(row);
#pragma unroll 1
        while ((row += 32) < row_end) {
            const offset_t from = row_ptr[row];
            if (row_ptr[row + 1] > from)
                head[from - first] = (unsigned short)(row - (unsigned)row_0 + 1);
            else
                empty_row(row);
        }
    } else {
        // The number is the place itself here, so that 16 bits hold it; see row_of.
#pragma unroll 1
        for (unsigned place = lane; place < count; place += 32) {
            const index_t after = first_row_from(row_ptr, row_0, row_1, first + (long long)place + 1);
            if (after > row_0 && row_ptr[after - 1] == first + (offset_t)place)
                head[place] = (unsigned short)(place + 1);
        }
#ifdef SPG_ONE_LAUNCH
#pragma unroll 1
        for (; row < row_end; row += 32)
            if (row_ptr[row + 1] == row_ptr[row]) empty_row(row);
#endif
    }
    __syncwarp();
    const auto row_of = [&](unsigned number) -> index_t {
        if (number == 0 || row_1 - row_0 <= SPG_WIDE) return row_0 - 1 + (index_t)number;
        return first_row_from(row_ptr, row_0, row_1, first + (long long)number) - 1;
    };

    unsigned carried_number = 0;  // the row that goes on and what it has: the same in all lanes
    value_t carried = 0;
#pragma unroll
    for (int s = 0; s < SPG_STEPS; ++s) {
        const unsigned number = head[32 * s + lane];
        const unsigned begins = __ballot_sync(SPG_FULL_WARP, number != 0);
#ifdef SPG_ONE_LAUNCH
        if (s == 0) reaches_in = !(begins & 1);
#endif
        value_t sum = v[s] * factor[s];
        if (lane == 0) {
            if (number == 0)
                sum += carried;
            else if (carried_number)
                y[row_of(carried_number)] = carried;
            else if (s > 0)
                end_of_leading(carried);
        }
        const unsigned upto = begins & (SPG_FULL_WARP >> (31 - lane));
        const int since = upto ? 31 - __clz(upto) : 0;  // where the lane's row begins in this step
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const value_t sum_below = __shfl_up_sync(SPG_FULL_WARP, sum, distance);
            if (distance <= (int)lane - since) sum += sum_below;
        }
        unsigned mine = __shfl_sync(SPG_FULL_WARP, number, since);
        if (!upto) mine = carried_number;
        if (lane < 31 && (begins >> (lane + 1) & 1)) {  // the row ends in this lane
            if (mine)
                y[row_of(mine)] = sum;
            else
                end_of_leading(sum);
        }
        carried_number = __shfl_sync(SPG_FULL_WARP, mine, 31);
        carried = __shfl_sync(SPG_FULL_WARP, sum, 31);
    }
#ifdef SPG_ONE_LAUNCH
    // First what others wait for, then what this tile waits for.
    if (lane == 0) {
        if (goes_on)
            publish_part(parts, tile, carried);
        else if (carried_number)
            y[row_of(carried_number)] = carried;
        else
            leading = carried;
    }
    if (reaches_in && !(goes_on && carried_number == 0)) {
        // Where the row began a tile may also hold the end of another; only the row's own parts are summed.
        leading += take_parts(parts, came_from / TILE + lane, tile);
        leading = warp_sum(leading);
        if (lane == 0) y[row_0 - 1] = leading;
    }
#else
    if (lane == 0) atomicAdd(y + row_of(carried_number), carried);
#endif
}
