// The types of a pooling page: elements T, arithmetic A in vectors V, positions in vectors I of integers J, L lanes each.
using T = IN;
using A = kf_acc<T>;
using V = kf_v<A>;
using I = kf_v_of<A>::bits;  // lanes of a position in the plane
using J = decltype(+I{}[0]);
constexpr int L = kf_lanes<A>;

KF_INLINE I iota() { I i; for (int l = 0; l < L; ++l) i[l] = l; return i; }
