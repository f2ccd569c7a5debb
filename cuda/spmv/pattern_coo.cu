// pattern-coo: y += A x where all stored values are the same: COO without values, as coo_segmented.cu otherwise.
//
// Layout   row, col int32 [nnz], row never falling; offset_t counts them; value_t `val`, the one value. x [cols],
//          y [rows], zeroed before the launch.
// Mapping  warp-segmented sums, one atomic per row and warp, see coo_segmented.cu.
// Wins     on edge lists of very uneven degrees: every warp has the same work; 8 bytes an edge instead of 12 (16).
// Loses    against pattern-csr: 4 more bytes per nonzero for the row.
// Idea     Bell and Garland, SC 2009; iso-valued matrices as in GraphBLAS (Davis, ACM TOMS 2023).
#define SPG_ONE_VALUE
#include "coo_segmented.cu"
