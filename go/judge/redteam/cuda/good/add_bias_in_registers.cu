// kind: a column a thread
// call: add_fp16_bias
// why: each thread keeps its element of the bias and walks down the rows
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_size0*out0_size1, 16)", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "other_numel", "type": "i32"}, {"int": "out0_size0*out0_size1", "type": "i32"}]}]}
KF_KERNEL(128) void kf_main(const kf_f16* self, const kf_f16* other, kf_f16* out0, int columns, int rows) {
  for (int c = threadIdx.x; c < columns; c += 128) {
    const float bias = kf_of(other[c]);
    for (int r = blockIdx.x * 16; r < min(rows, int(blockIdx.x) * 16 + 16); ++r)
      out0[r * columns + c] = kf_to<kf_f16>(kf_of(self[r * columns + c]) + bias);
  }
}
