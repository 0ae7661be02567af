// Group norm of planes: the blocks of a cluster have a group in shared memory.
//
// Idea: one read and one write. As group_norm_split, but the parts stay where they are, and the blocks tell each other the moments of theirs through
// distributed shared memory. Parts come in past the registers, so that all of a block is on its way at once, and a vector is added up while those behind it
// come in. Several blocks fit a multiprocessor: where one group waits, another is read or written. Bound: copy of the bytes.
// Works for: contiguous groups of CLUSTER parts, all of a card's as long, and planes of whole steps (THREADS vectors, which CLUSTER decides); weight and bias
// of the data's type or absent. Clusters: compute capability 9.0 or later.
// Parameters the tree may change: CLUSTER (blocks of a group), ONCE (outputs do not stay in the L2).
// Numerics: as group_norm_split.

// @include rows.cuh

// @include words.cuh

// @include parts.cuh

// @include cluster.cuh

extern __shared__ uint4 slots[];

KF_KERNEL(THREADS, BLOCKS) void kf_main(
// @parameters
) {
  cluster_begin();
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  auto slot = [](int i) -> uint4& { return slots[i * THREADS + int(threadIdx.x)]; };
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (!SHIFTED || aligned) kf_copy_ahead(&slot(i), (const uint4*)vector_of_part(x, i)); else slot(i) = fetch(vector_of_part(x, i), false);
    kf_end_group();
  }
  const Moments mine = of_part(x, aligned, [=](auto i) {
    kf_wait_groups<ITEMS - 1 - i.value>();
    return slot(i.value);
  });
  INDEX row = INDEX(blockIdx.x) / CLUSTER;
  const int index = int(blockIdx.x % CLUSTER);
// @channel
  const Affine by = affine_of(weight, bias, index * PART, first, area);  // on its way while blocks wait for each other
  const kf_shuffled<Moments>* inbox = gathered(mine);
  const Moments m = of_group(CLUSTER, [=](int k) { return inbox[k].value; });
  const A rstd = rstd_of(m, A(length), eps);
  if (index == 0 && threadIdx.x == 0) {
    mean_out[row] = kf_to<STAT>(m.mean);
    rstd_out[row] = kf_to<STAT>(rstd);
  }
  write_part(out, aligned, [=](auto i) { return slot(i.value); }, m.mean, rstd, by);
}
