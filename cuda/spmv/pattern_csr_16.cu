// pattern-csr-16: y = A x where all stored values are the same: CSR with 16-bit column offsets and no values, as
//                 csr_16.cu otherwise.
//
// Layout   row_ptr offset_t [rows + 1]; offset uint16 [nnz], base int32 [ceil(nnz / 128)] as in csr_16.cu; value_t
//          `val`, the one value. x [cols], y [rows].
// Mapping  blocks of equal work (adaptive.cuh), see csr_16.cu; a quad of entries is one read of 8 bytes.
// Wins     on meshes, grids and whatever has its neighbours near: 2 bytes per nonzero, a quarter of CSR's in single
//          precision, a sixth in double.
// Loses    nothing against pattern-csr that is known; but what spans more than 65,536 columns cannot be stored so.
// Idea     Kourtis, Goumas, Koziris, Computing Frontiers 2008; iso-valued matrices as in GraphBLAS (Davis, 2023).
#define SPG_ONE_VALUE
#include "csr_16.cu"
