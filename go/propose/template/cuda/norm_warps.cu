// Layer, group or (RMS) root-mean-square norm of short rows: TEAM lanes of a warp share a row, which stays in their registers.
//
// Idea: one read and one write; a row's elements are loaded at once, its sums go through shuffles only. Bound: copy of the bytes.
// Works for: rows of at most 64 elements a lane; weight and bias of any floating type or absent. A group of a group norm is a row.
// Parameters the tree may change: TEAM, WARPS (of a block), VEC (elements of an access).
// Numerics: float (double for double). Squares about the mean, of a warp's part where rows are whole, and such parts joined; a mean that is large beside the
// deviation is corrected by what is left about it; (x - mean) * rstd * weight + bias.
// SPREADS: eager's recurrence makes a whole row NaN of an infinity (not of an overflow), where the root mean square alone would make it zero.

// @include rows.cuh

// @include affine.cuh

// @include norm_row.cuh
