// Group norm of planes: each block has a part of a group in registers, at once, and several blocks share a group.
//
// Idea: kf_gather takes the moments of a part; in kf_main every warp joins its group's parts and the block scales its own, which comes from the L2: all that
// a thread works on is asked for before anything else, the parts of a device's turn are as large as half its registers, and weight and bias are two numbers
// of a step. ONCE: what is written does not push the input out of the L2 before it is read again.
// Bound: one more reading than a copy, less by the L2. Source: bench/authored/cuda/group_norm/02_streamed_out.cu.
// Works for: contiguous groups of whole parts, at most 512, and planes of whole steps (THREADS vectors); weight and bias of the data's type or absent.
// Parameters the tree may change: THREADS, ITEMS (vectors of a thread), ONCE (outputs, and the last reading, do not stay in the L2).
// Numerics: float (double for double). Moments of a vector about its own mean, joined in pairs; (x - mean) * (rstd * weight) + bias.

// @include rows.cuh

// @include words.cuh

// @include parts.cuh

template <bool Once> KF_INLINE void read_part(const IN* x, bool aligned, uint4 (&kept)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) kept[i] = fetch<Once>(vector_of_part(x, i), aligned);
}

KF_KERNEL(THREADS, BLOCKS) void kf_gather(
// @gather
) {
  const bool aligned = aligned_tensor<VEC>(x);
  uint4 kept[ITEMS];
  read_part<false>(x, aligned, kept);
  const Moments m = of_part(x, aligned, [&](auto i) { return kept[i.value]; });
  if (threadIdx.x == 0) parts[blockIdx.x] = m;
}
KF_KERNEL(THREADS, BLOCKS) void kf_main(
// @parameters
) {
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  uint4 kept[ITEMS];
  read_part<ONCE>(x, aligned, kept);
  INDEX row = INDEX(blockIdx.x);
  const int index = int(kf_divider<INDEX>{pieces, pieces_magic}.split(row));
// @channel
  const Affine by = affine_of(weight, bias, index * PART, first, area);
  const Moments* first_part = parts + (int64_t(blockIdx.x) - index);
  const Moments m = of_group(int(pieces), [=](int k) { return first_part[k]; });
  const A rstd = rstd_of(m, A(length), eps);
  if (index == 0 && threadIdx.x == 0) {
    mean_out[row] = kf_to<STAT>(m.mean);
    rstd_out[row] = kf_to<STAT>(rstd);
  }
  write_part(out, aligned, [&](auto i) { return kept[i.value]; }, m.mean, rstd, by);
}
