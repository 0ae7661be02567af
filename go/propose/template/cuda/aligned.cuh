// Whether a tensor's address is one that vectors of N elements take. ALIGNED: every tensor's is, for the card's calls had such addresses and a plan's
// guard asks for them; then the code for odd ones (SHIFTED) is not even compiled.
constexpr bool SHIFTED = !ALIGNED;
template <int N, class X> KF_INLINE bool aligned_tensor(const X* p) { return ALIGNED || kf_aligned<N>(p); }
