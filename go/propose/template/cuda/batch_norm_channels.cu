// Batch norm in inference where channels are contiguous, also of a matrix of rows and channels.
//
// Idea: a thread keeps the terms of VEC channels and goes down ROWS positions, of which up to four are loaded before the first is used. Bound:
// copy of the bytes.
// Works for: dense positions of any number; VEC divides the channels. Weight and bias of any floating type or absent.
// Parameters the tree may change: THREADS, ROWS, VEC (elements of an access). WHOLE: every block of the card's calls has all its positions.
// Numerics: eager's operations in eager's order, in float (double for double).

// @include rows.cuh

// @include batch_norm.cuh

constexpr int FLYING = kf_least(ROWS, 4);

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
// @save
  // `across` vectors of channels side by side, `down` positions below each other, ROWS times.
  const int columns = int(channels) / VEC, across = kf_least(columns, THREADS), down = THREADS / across, below = threadIdx.x / across;
  if (below >= down) return;
  const int64_t first = int64_t(blockIdx.x) * (down * ROWS) + below;
  for (int column = threadIdx.x % across; column < columns; column += across) {
    const int channel = column * VEC;
    const kf_vec<A, VEC> m = parameters(mean, channel, A(0)), variances = parameters(variance, channel, A(1));
    const kf_vec<A, VEC> w = parameters(weight, channel, A(1)), b = parameters(bias, channel, A(0));
    Terms terms[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const A invstd = inverse_root(variances[e] + eps);
      terms[e] = {m[e], VENDOR ? w[e] * invstd : w[e], invstd, b[e]};
    }
#pragma unroll 1
    for (int done = 0; done < ROWS; done += FLYING) {
      const int64_t row = first + done * down;
      if (!WHOLE && row >= positions) break;
      kf_vec<A, VEC> v[FLYING];
#pragma unroll
      for (int r = 0; r < FLYING; ++r)
        if (WHOLE || row + r * down < positions) v[r] = get<VEC>(x + (row + r * down) * channels + channel, aligned);
#pragma unroll
      for (int r = 0; r < FLYING; ++r) {
        if (!WHOLE && row + r * down >= positions) break;
#pragma unroll
        for (int e = 0; e < VEC; ++e) v[r][e] = applied(v[r][e], terms[e]);
        put<VEC>(out + (row + r * down) * channels + channel, v[r], aligned);
      }
    }
  }
}
