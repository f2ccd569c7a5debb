// cooperative_groups.h for the host device: blocks, tiles of up to 32 threads, coalesced groups, the grid.
#pragma once

#include "../spg_host.hpp"

namespace cooperative_groups {

class thread_block {
public:
    void sync(spg_site here = SPG_HERE) const { spg_barrier("thread_block::sync", 0, nullptr, here); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return spg_self->rank; }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
public:
    void sync(spg_site here = SPG_HERE) const { spg_grid_barrier(here); }
    static bool is_valid() { return true; }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank()
    {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + spg_self->rank; }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return blockIdx; }
};
inline grid_group this_grid() { return {}; }

// Any set of lanes of one warp; ranks count the set bits.
class coalesced_group {
    unsigned mask_;

protected:
    int lane_of(unsigned rank) const
    {
        for (int lane = 0; lane < 32; ++lane)
            if (mask_ >> lane & 1 && rank-- == 0) return lane;
        return spg::lane();
    }

public:
    explicit coalesced_group(unsigned mask) : mask_(mask) {}
    unsigned spg_mask() const { return mask_; }
    unsigned size() const { return (unsigned)__popc(mask_); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return (unsigned)__popc(mask_ & ((1u << spg::lane()) - 1)); }
    unsigned meta_group_rank() const { return 0; }
    unsigned meta_group_size() const { return 1; }
    void sync(spg_site here = SPG_HERE) const { __syncwarp(mask_, here); }
    template <class T> T shfl(T value, unsigned rank, spg_site here = SPG_HERE) const
    {
        return spg::shuffle("group::shfl", mask_, value, lane_of(rank), here);
    }
    template <class T> T shfl_up(T value, unsigned delta, spg_site here = SPG_HERE) const
    {
        const unsigned me = thread_rank();
        return spg::shuffle("group::shfl_up", mask_, value, delta > me ? spg::lane() : lane_of(me - delta), here);
    }
    template <class T> T shfl_down(T value, unsigned delta, spg_site here = SPG_HERE) const
    {
        return spg::shuffle("group::shfl_down", mask_, value, lane_of(thread_rank() + delta), here);
    }
    int any(int predicate, spg_site here = SPG_HERE) const { return __any_sync(mask_, predicate, here); }
    int all(int predicate, spg_site here = SPG_HERE) const { return __all_sync(mask_, predicate, here); }
    unsigned ballot(int predicate, spg_site here = SPG_HERE) const
    {
        return pack(__ballot_sync(mask_, predicate, here));
    }
    template <class T> unsigned match_any(T value, spg_site here = SPG_HERE) const
    {
        return pack(__match_any_sync(mask_, value, here));
    }

private:
    unsigned pack(unsigned lanes) const  // bits by rank, not by lane
    {
        unsigned result = 0, rank = 0;
        for (int lane = 0; lane < 32; ++lane)
            if (mask_ >> lane & 1) result |= (lanes >> lane & 1) << rank++;
        return result;
    }
};
inline coalesced_group coalesced_threads(spg_site here = SPG_HERE) { return coalesced_group(spg_active_mask(here)); }

template <unsigned N, class Parent = void> class thread_block_tile : public coalesced_group {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

public:
    thread_block_tile() : coalesced_group((N == 32 ? ~0u : (1u << N % 32) - 1) << (spg::lane() & ~(int)(N - 1))) {}
    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
    static unsigned thread_rank() { return spg_self->rank % N; }
    static unsigned meta_group_rank() { return spg_self->rank / N; }
    static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
    template <class T> T shfl(T value, int rank, spg_site here = SPG_HERE) const
    {
        return __shfl_sync(spg_mask(), value, rank, N, here);
    }
    template <class T> T shfl_up(T value, unsigned delta, spg_site here = SPG_HERE) const
    {
        return __shfl_up_sync(spg_mask(), value, delta, N, here);
    }
    template <class T> T shfl_down(T value, unsigned delta, spg_site here = SPG_HERE) const
    {
        return __shfl_down_sync(spg_mask(), value, delta, N, here);
    }
    template <class T> T shfl_xor(T value, unsigned lanes, spg_site here = SPG_HERE) const
    {
        return __shfl_xor_sync(spg_mask(), value, (int)lanes, N, here);
    }
};
template <unsigned N, class Parent> inline thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }

template <class Label> inline coalesced_group labeled_partition(const coalesced_group& group, Label label,
                                                                spg_site here = SPG_HERE)
{
    return coalesced_group(__match_any_sync(group.spg_mask(), label, here));
}
inline coalesced_group binary_partition(const coalesced_group& group, bool side, spg_site here = SPG_HERE)
{
    return coalesced_group(__match_any_sync(group.spg_mask(), (int)side, here));
}

template <class Group> inline void sync(const Group& group, spg_site here = SPG_HERE) { group.sync(here); }
template <class Group> inline auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> inline auto group_size(const Group& group) { return group.size(); }

}  // namespace cooperative_groups
