#if PARTS > 1
// The second kernel: a warp folds the parts of an output.
KF_KERNEL(128) void kf_join(
// @join
) {
// @joined
  const INDEX o = INDEX(blockIdx.x) * 4 + INDEX(threadIdx.x / 32);
  Run run;
  if (o < outputs)
    for (int p = threadIdx.x % 32; p < PARTS; p += 32) run.add(parts[o * PARTS + p]);
  const C x = kf_warp_fold(run.value(), Fold());
  if (o < outputs && threadIdx.x % 32 == 0) {
    INDEX at[2];
    elements.find(o, at);
    out[at[OUTPUT]] = finish(x, outputs, numel);
  }
}
#endif
