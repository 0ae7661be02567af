// Batch norm in inference where a channel's plane is one run: its terms are looked up for each vector.
//
// Idea: the output is one run of vectors, so planes of any size cost the same; UNROLL vectors of a thread are loaded before the first is used.
// The terms of a channel are in the L1. PLANES that a vector may meet: 1; 2, whose terms are then both at hand; more. Bound: copy of the bytes.
// Works for: contiguous tensors of three dims or more, or (STRIDED) any strides of samples and channels; weight and bias of any floating type or
// absent.
// Parameters the tree may change: THREADS, UNROLL, VEC (elements of an access).
// Numerics: eager's operations in eager's order, in float (double for double).

// @include rows.cuh

// @include batch_norm.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> planes = {area, area_magic}, samples = {channels, channels_magic};
  const bool aligned = EVEN && aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
// @save
  auto terms = [&](INDEX c) -> Terms { return terms_of(mean, variance, weight, bias, int(c), eps); };
  const INDEX first = (INDEX(blockIdx.x) * (THREADS * UNROLL) + INDEX(threadIdx.x)) * VEC;
  struct Place { INDEX sample, channel, within; };
  auto address = [&](INDEX at, const Place& p) {
    return STRIDED ? x + (int64_t(p.sample) * sample_stride + int64_t(p.channel) * channel_stride + p.within) : x + at;
  };
  Place place[UNROLL];
  kf_vec<A, VEC> v[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX at = first + u * (THREADS * VEC);
    place[u].sample = at;
    place[u].within = planes.split(place[u].sample);
    place[u].channel = samples.split(place[u].sample);
    if (at + VEC <= count && (PLANES <= 2 || place[u].within + VEC <= area)) v[u] = get<VEC>(address(at, place[u]), aligned);
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX at = first + u * (THREADS * VEC);
    if (at >= count) break;
    Place p = place[u];
    Terms t = terms(p.channel);
    if (at + VEC <= count && (PLANES <= 2 || p.within + VEC <= area)) {
      const INDEX left = area - p.within;  // elements up to the next plane
      const Terms next = PLANES == 2 ? terms(p.channel + 1 == channels ? 0 : p.channel + 1) : t;
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[u][e] = applied(v[u][e], PLANES == 2 && e >= left ? next : t);
      put<VEC>(out + at, v[u], aligned);
      continue;
    }
#pragma unroll 1
    for (INDEX i = at; i < at + VEC && i < count; ++i) {  // over the end of the tensor, or of planes
      out[i] = kf_to<T>(applied(kf_of(*address(i, p)), t));
      if (++p.within == area && i + 1 < count) {
        p.within = 0;
        if (++p.channel == channels) p.channel = 0, ++p.sample;
        t = terms(p.channel);
      }
    }
  }
}
