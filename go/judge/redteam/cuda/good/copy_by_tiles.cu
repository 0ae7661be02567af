// kind: tiles in shared memory
// call: copy_fp32_transposed
// why: both sides are read and written along rows
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(src_size0, 32)", "ceildiv(src_size1, 32)", "1"], "block": ["32", "8", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "src_size0", "type": "i32"}, {"int": "src_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, float* self, int rows, int columns) {
  __shared__ float tile[32][33];
  const int row = blockIdx.x * 32 + threadIdx.x, column = blockIdx.y * 32 + threadIdx.x;
  for (int k = threadIdx.y; k < 32; k += 8)
    if (row < rows && blockIdx.y * 32 + k < columns) tile[k][threadIdx.x] = src[(blockIdx.y * 32 + k) * rows + row];
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8)
    if (column < columns && blockIdx.x * 32 + k < rows) self[(blockIdx.x * 32 + k) * columns + column] = tile[threadIdx.x][k];
}
