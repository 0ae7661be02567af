// Softmax or (LOG) log-softmax along short contiguous rows: TEAM lanes of a warp share a row, which stays in their registers.
//
// Idea: one read and one write; the maximum and the sum go through shuffles only. Bound: copy of the bytes.
// Works for: rows of at most 64 elements a lane.
// Parameters the tree may change: TEAM, WARPS (of a block), VEC (elements of an access).
// Numerics: maximum first, so nothing overflows; float (double for double); a division as eager, for half types one multiplication.

// @include rows.cuh

// @include softmax.cuh

// @include softmax_row.cuh
