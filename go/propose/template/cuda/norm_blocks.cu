// Layer, group or (RMS) root-mean-square norm of middling rows: a block has a row in its registers.
//
// Idea: one read and one write; a row's elements are loaded at once, its sums go through shuffles and shared memory. Bound: copy of the bytes.
// Works for: rows of at most 64 elements a thread; weight and bias of any floating type or absent. A group of a group norm is a row.
// Parameters the tree may change: THREADS, VEC (elements of an access).
// Numerics: as norm_warps.

constexpr int TEAM = THREADS;

// @include rows.cuh

// @include affine.cuh

// @include norm_row.cuh
