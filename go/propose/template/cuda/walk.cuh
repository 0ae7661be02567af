// @include aligned.cuh

// Operands of equal sizes, visited in the order of the output's memory: Dims dims, outermost first, neighbours joined where they are one run in
// every operand. Strides in elements; 0 repeats. All loops are unrolled, so that sizes and strides stay where the kernel's arguments are.
template <int Operands, int Dims> struct Walk {
  kf_divider<INDEX> size[Dims];
  INDEX stride[Operands][Dims];

  // Where element i lies in each operand.
  KF_INLINE void find(INDEX i, INDEX (&offset)[Operands]) const {
#pragma unroll
    for (int k = 0; k < Operands; ++k) offset[k] = 0;
#pragma unroll
    for (int d = Dims - 1; d >= 0; --d) {
      const INDEX at = d > 0 ? size[d].split(i) : i;
#pragma unroll
      for (int k = 0; k < Operands; ++k) offset[k] += at * stride[k][d];
    }
  }
};
