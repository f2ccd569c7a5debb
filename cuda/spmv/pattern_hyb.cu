// pattern-hyb: y = A x where all stored values are the same: HYB without values, as hyb.cu otherwise.
//
// Layout   ell_col [slots][rows], coo_row, coo_col [tail] int32 as in hyb.cu; value_t `ell_val`, `coo_val`, the one
//          value; offset_t counts the tail. x [cols], y [rows].
// Mapping  two launches, see hyb.cu.
// Wins     where hyb does, on unweighted graphs: a slot costs 4 bytes instead of 8 (12 in double precision), an entry
//          of the tail 8 instead of 12 (16).
// Loses    on even rows, where pattern-ell and pattern-sell do; and where the tail is most of the matrix.
// Idea     Bell and Garland, SC 2009; iso-valued matrices as in GraphBLAS (Davis, ACM TOMS 2023).
#define SPG_ONE_VALUE
#include "hyb.cu"
