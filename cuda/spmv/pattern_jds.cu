// pattern-jds: y = A x where all stored values are the same: JDS without values, as jds.cu otherwise.
//
// Layout   perm int32 [rows], slot_start offset_t [slots + 1], col int32 [nnz] as in jds.cu; value_t `val`, the one
//          value. x [cols], y [rows].
// Mapping  a thread per row in the order of perm, see jds.cu.
// Wins     over pattern-ell where rows differ: no padding; half of jds's bytes in single precision.
// Loses    on hubs, which one thread walks through; y is scattered.
// Idea     Saad, 1989; iso-valued matrices as in GraphBLAS (Davis, ACM TOMS 2023).
#define SPG_ONE_VALUE
#include "jds.cu"
