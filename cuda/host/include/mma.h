// mma.h for the host device: opaque fragments. As on a GPU, which lane holds which element is not specified:
// here lane l holds a stretch of the row-major matrix. Products and sums are made in the accumulator's precision
// (at least float), in order of k.
#pragma once

#include "cuda_bf16.h"

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

template <class T> struct spg_storage {
    typedef T type;
};
template <> struct spg_storage<precision::tf32> {
    typedef float type;
};
template <class Use, int M, int N, int K> struct spg_shape;
template <int M, int N, int K> struct spg_shape<matrix_a, M, N, K> {
    static constexpr int rows = M, columns = K;
};
template <int M, int N, int K> struct spg_shape<matrix_b, M, N, K> {
    static constexpr int rows = K, columns = N;
};
template <int M, int N, int K> struct spg_shape<accumulator, M, N, K> {
    static constexpr int rows = M, columns = N;
};

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    typedef typename spg_storage<T>::type element;
    typedef spg_shape<Use, M, N, K> shape;
    enum { num_elements = shape::rows * shape::columns / 32, num_storage_elements = num_elements };
    static_assert(shape::rows * shape::columns % 32 == 0, "no such tile");
    element x[num_elements];
};

template <class Fragment, class T>
inline void spg_move(Fragment& f, T* memory, unsigned leading, bool row_order, bool store, spg_site here)
{
    // PTX wants 16 bytes; CUDA's guide asks for 32.
    if ((size_t)memory % 16 || leading * sizeof(T) % 16) spg_trap("a wmma tile that is not aligned to 16 bytes", here);
    __syncwarp(~0u, here);
    for (int i = 0; i < Fragment::num_elements; ++i) {
        const int at = spg::lane() * Fragment::num_elements + i;
        const int row = at / Fragment::shape::columns, column = at % Fragment::shape::columns;
        T& place = memory[row_order ? (size_t)row * leading + column : (size_t)column * leading + row];
        if (store)
            place = f.x[i];
        else
            f.x[i] = place;
    }
    __syncwarp(~0u, here);
}

template <class Use, int M, int N, int K, class T, class Layout>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const typename spg_storage<T>::type* memory,
                             unsigned leading, spg_site here = SPG_HERE)
{
    typedef typename spg_storage<T>::type element;
    spg_move(f, const_cast<element*>(memory), leading, spg::same<Layout, row_major>::value, false, here);
}
template <int M, int N, int K, class T>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* memory, unsigned leading, layout_t layout,
                             spg_site here = SPG_HERE)
{
    spg_move(f, const_cast<T*>(memory), leading, layout == mem_row_major, false, here);
}
template <int M, int N, int K, class T>
inline void store_matrix_sync(T* memory, const fragment<accumulator, M, N, K, T>& f, unsigned leading, layout_t layout,
                              spg_site here = SPG_HERE)
{
    spg_move(const_cast<fragment<accumulator, M, N, K, T>&>(f), memory, leading, layout == mem_row_major, true, here);
}
template <class Use, int M, int N, int K, class T, class Layout, class V>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, V value)
{
    for (auto& element : f.x) element = typename spg_storage<T>::type(value);
}
inline float __float_to_tf32(float x)  // 10 bits of mantissa, to nearest, ties away from zero
{
    return spg::bits<float>((spg::bits<unsigned>(x) + 0x1000u) & ~0x1fffu);
}

template <class T> struct spg_wide {
    typedef float type;
};
template <> struct spg_wide<double> {
    typedef double type;
};

template <int M, int N, int K, class A, class LA, class B, class LB, class D, class C>
inline void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
                     const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, C>& c,
                     bool = false, spg_site here = SPG_HERE)
{
    typedef fragment<matrix_a, M, N, K, A, LA> FA;
    typedef fragment<matrix_b, M, N, K, B, LB> FB;
    typedef typename spg_wide<D>::type wide;
    // Every lane sees all fragments; the second meeting keeps them alive until all have read.
    unsigned long long as[32], bs[32];
    spg_lane mine{};
    mine.in = (unsigned long long)(size_t)a.x;
    mine.all = as;
    spg_warp(SPG_WARP_GATHER, "mma_sync", ~0u, &mine, here);
    mine.in = (unsigned long long)(size_t)b.x;
    mine.all = bs;
    spg_warp(SPG_WARP_GATHER, "mma_sync", ~0u, &mine, here);
    if (mine.present != ~0u) spg_trap("mma_sync in a warp that has not all its 32 lanes", here);
    D result[M * N / 32];
    for (int i = 0; i < M * N / 32; ++i) {
        const int at = spg::lane() * (M * N / 32) + i, row = at / N, column = at % N;
        wide sum = (wide)c.x[i];
        for (int k = 0; k < K; ++k) {
            const int in_a = row * K + k, in_b = k * N + column;
            const auto* pa = (const typename FA::element*)(size_t)as[in_a / FA::num_elements];
            const auto* pb = (const typename FB::element*)(size_t)bs[in_b / FB::num_elements];
            sum += (wide)pa[in_a % FA::num_elements] * (wide)pb[in_b % FB::num_elements];
        }
        result[i] = D(sum);
    }
    __syncwarp(~0u, here);
    for (int i = 0; i < M * N / 32; ++i) d.x[i] = result[i];
}

}  // namespace wmma
}  // namespace nvcuda
