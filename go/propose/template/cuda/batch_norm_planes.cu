// Batch norm in inference of contiguous tensors: the channel's terms are looked up for each vector.
//
// Idea: the tensor is one run of vectors, so planes of any size cost the same; UNROLL vectors of a thread are loaded before the first is used.
// The terms of a channel are in the L1. Bound: copy of the bytes.
// Works for: contiguous tensors of two dims or more; weight and bias of any floating type or absent.
// Parameters the tree may change: THREADS, UNROLL, VEC (elements of an access).
// Numerics: eager's operations in eager's order, in float (double for double).

// @include rows.cuh

// @include batch_norm.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> planes = {area, area_magic}, samples = {channels, channels_magic};
  const bool aligned = kf_aligned<VEC>(x) && kf_aligned<VEC>(out);
// @save
  auto terms = [&](int c) -> Terms {
    return {A(kf_of(mean[c])), parameter(weight, c, A(1)), inverse_root(A(kf_of(variance[c])) + eps), parameter(bias, c, A(0))};
  };
  const INDEX first = (INDEX(blockIdx.x) * (THREADS * UNROLL) + INDEX(threadIdx.x)) * VEC;
  kf_vec<A, VEC> v[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX at = first + u * (THREADS * VEC);
    if (at + VEC <= count) v[u] = get<VEC>(x + at, aligned);
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX at = first + u * (THREADS * VEC);
    if (at >= count) break;
    INDEX plane = at;
    INDEX within = planes.split(plane);
    INDEX c = samples.split(plane);
    Terms t = terms(int(c));
    const bool whole = at + VEC <= count;
    if (whole && (INSIDE || within + VEC <= area)) {
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[u][e] = applied(v[u][e], t);
    } else {
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        if (within == area) {
          within = 0;
          c = c + 1 == channels ? 0 : c + 1;
          t = terms(int(c));
        }
        ++within;
        if (whole) v[u][e] = applied(v[u][e], t);
        else if (at + e < count) out[at + e] = kf_to<T>(applied(kf_of(x[at + e]), t));
      }
    }
    if (whole) put<VEC>(out + at, v[u], aligned);
  }
}
