// Batch norm in inference where channels are contiguous, also of a matrix of rows and channels.
//
// Idea: a thread keeps the terms of VEC channels and goes down ROWS positions, whose vectors are loaded before the first is used. Bound: copy
// of the bytes.
// Works for: dense positions of any number; VEC divides the channels. Weight and bias of any floating type or absent.
// Parameters the tree may change: THREADS, ROWS, VEC (elements of an access).
// Numerics: eager's operations in eager's order, in float (double for double).

// @include rows.cuh

// @include batch_norm.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const bool aligned = kf_aligned<VEC>(x) && kf_aligned<VEC>(out);
// @save
  // `across` vectors of channels side by side, `down` positions below each other, ROWS times.
  const int columns = int(channels) / VEC, across = kf_least(columns, THREADS), down = THREADS / across, below = threadIdx.x / across;
  if (below >= down) return;
  const int64_t first = int64_t(blockIdx.x) * (down * ROWS) + below;
  for (int column = threadIdx.x % across; column < columns; column += across) {
    const int channel = column * VEC;
    kf_vec<A, VEC> v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      if (first + r * down < positions) v[r] = get<VEC>(x + (first + r * down) * channels + channel, aligned);
    Terms terms[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) terms[e] = terms_of(mean, variance, weight, bias, channel + e, eps);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (first + r * down >= positions) break;
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[r][e] = applied(v[r][e], terms[e]);
      put<VEC>(out + (first + r * down) * channels + channel, v[r], aligned);
    }
  }
}
