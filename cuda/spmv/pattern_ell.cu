// pattern-ell: y = A x where all stored values are the same: ELL without values, as ell.cu otherwise.
//
// Layout   col [slots][rows] int32 as in ell.cu; value_t `val`, the one value. x [cols], y [rows].
// Mapping  a thread per row, see ell.cu.
// Wins     where ell does, on unweighted graphs and matrices of one value: half of its bytes in single precision, a
//          third in double.
// Loses    where rows differ in length; and against pattern-sell wherever slices need fewer slots.
// Idea     ELLPACK; iso-valued matrices as in GraphBLAS (Davis, ACM TOMS 2023).
#define SPG_ONE_VALUE
#include "ell.cu"
