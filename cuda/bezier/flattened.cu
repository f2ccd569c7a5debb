// flattened.cu: as many points as each curve needs, in one launch, without children and without the host.
//
// Layout   control float2 [curves][3]; count int [curves]: points of each curve, see curve.cuh;
//          start long long [curves]: where its points begin, the prefix sum of `count`; total long long [1];
//          vertices float2 [total]: the points of all curves, one curve after another.
// State    state scan_word_t [1 + tiles]: see scan.cuh; zero when it is made, never cleared.
// Mapping  A block takes a tile of curves. It counts their points, a thread per curve, sums them up, and learns from
//          the tiles before where its points begin (scan.cuh). Then the points of the tile are cut into equal
//          stretches, one for each warp, whatever curve they belong to: a lane per point, 32 points next to each
//          other at a time. So a curve of 256 points costs 32 times one of 8, and no lane waits for a longer curve.
// Wins     Wherever work per item is known once it has been looked at. The prefix sum takes the place of a launch.
// Loses    To `uniform` when every curve needs 256 points: the counts are wasted.
// Idea     Flattening of nested parallelism (Blelloch, "Programming parallel algorithms", 1996).
#include "../common/scan.cuh"
#include "curve.cuh"

#define SPG_TILE_CURVES 256
#define SPG_AHEAD 6  // points that a lane computes before it knows where they go

// Details of the mapping. A lane moves on from its curve by looking at where the next ones start; as each has 8 points
// or more, that is four looks at most. While the blocks before it make up their sums, a block computes its first
// points, which are then in registers when it learns where they go: with about 150 blocks, waiting would be a good part
// of the time.

// `tile_curves` is at most 256 and at most the block.
SPG_KERNEL flattened(int curves, int tile_curves, const float2* __restrict__ control, int* __restrict__ count,
                     long long* __restrict__ start, float2* __restrict__ vertices, long long* total, scan_word_t* state)
{
    SPG_SHARED(curve_t, curve, SPG_TILE_CURVES);
    SPG_SHARED(int, offset, SPG_TILE_CURVES + 1);
    const scan_turn turn = take_turn(state);
    const long long first = (long long)turn.tile * tile_curves;
    const int held = (int)min((long long)tile_curves, curves - first), me = threadIdx.x;

    int mine = 0;
    if (me < held) {
        curve[me] = load_curve(control, (int)first + me);
        mine = points_needed(curve[me]);
    }
    int points = 0;
    const int before = block_exclusive_sum(mine, points);
    if (me < held) offset[me] = before;
    if (me == 0) {
        offset[held] = points;
        publish(state, turn, points);
    }
    __syncthreads();

    // This warp's stretch, in steps of 32 points.
    const int lane = me & 31, warp = me / 32, warps = blockDim.x / 32;
    const int steps = (points + 31) / 32, share = (steps + warps - 1) / warps;
    const int from = warp * share * 32, to = min(points, from + share * 32);
    int at = 0;  // the last curve that starts at or before this lane's first point
    for (int beyond = held; beyond - at > 1;) {
        const int middle = (at + beyond) / 2;
        if (offset[middle] <= from + lane)
            at = middle;
        else
            beyond = middle;
    }
    const auto next_point = [&](int point) {
        while (offset[at + 1] <= point) ++at;
        return curve_point(curve[at], point - offset[at], offset[at + 1] - offset[at]);
    };
    float2 ahead[SPG_AHEAD];
    scan_word_t seen = 0;
#pragma unroll
    for (int k = 0; k < SPG_AHEAD; ++k) {
        if (k == SPG_AHEAD / 2) seen = first_look(state, turn);
        if (from + 32 * k + lane < to) ahead[k] = next_point(from + 32 * k + lane);
    }

    const long long begin = look_back(state, turn, points, seen);
    if (me < held) {
        count[first + me] = mine;
        start[first + me] = begin + before;
        if (first + me == curves - 1) *total = begin + points;
    }
#pragma unroll
    for (int k = 0; k < SPG_AHEAD; ++k)
        if (from + 32 * k + lane < to) vertices[begin + from + 32 * k + lane] = ahead[k];
    for (int point = from + 32 * SPG_AHEAD + lane; point < to; point += 32) vertices[begin + point] = next_point(point);
}
