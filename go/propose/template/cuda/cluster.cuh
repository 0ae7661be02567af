// What the blocks of a cluster tell each other: one value of each goes to all, who have them in the order of the blocks (gathered), or folded so
// (exchanged). Other blocks' shared memory may only be written once they have begun: cluster_begin() says so of this one, gathered() waits for the others.
#if CLUSTER > 1
KF_INLINE void cluster_begin() { __cluster_barrier_arrive_relaxed(); }
template <class X> KF_INLINE const kf_shuffled<X>* gathered(X mine) {
  __shared__ kf_shuffled<X> inbox[CLUSTER];
  __cluster_barrier_wait();
  if (threadIdx.x < CLUSTER) ((kf_shuffled<X>*)__cluster_map_shared_rank(&inbox[blockIdx.x % CLUSTER], threadIdx.x))->value = mine;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  return inbox;
}
template <class X, class Fold> KF_INLINE X exchanged(X mine, Fold fold) {
  const kf_shuffled<X>* inbox = gathered(mine);
  X all = inbox[0].value;
#pragma unroll
  for (int k = 1; k < CLUSTER; ++k) all = fold(all, inbox[k].value);
  return all;
}
#else
KF_INLINE void cluster_begin() {}
template <class X, class Fold> KF_INLINE X exchanged(X mine, Fold) { return mine; }
#endif
