// kind: threads of a column joined
// call: sum_fp16_columns
// why: eight threads a column, joined in shared memory
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size1, 32)", "1", "1"], "block": ["32", "8", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size0", "type": "i32"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int rows, int columns) {
  __shared__ float part[8][32];
  const int c = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  if (c < columns)
    for (int r = threadIdx.y; r < rows; r += 8) sum += kf_of(self[r * columns + c]);
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= columns) return;
  sum = 0;
  for (int k = 0; k < 8; ++k) sum += part[k][threadIdx.x];
  out0[c] = kf_to<kf_f16>(sum);
}
