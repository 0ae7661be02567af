// Softmax or (LOG) log-softmax along middling contiguous rows: a block has a row in its registers.
//
// Idea: one read and one write; the maximum and the sum go through shuffles and shared memory. Bound: copy of the bytes.
// Works for: rows of at most 64 elements a thread.
// Parameters the tree may change: THREADS, VEC (elements of an access).
// Numerics: as softmax_warps.

constexpr int TEAM = THREADS;

// @include rows.cuh

// @include softmax.cuh

// @include softmax_row.cuh
