// Idea: a square of 64 by 64 elements goes through shared memory, so that both sides are read and written in 128 bytes a row. Rows in shared memory are 66 elements
// apart: a column's elements lie in banks of their own.

KF_KERNEL(256) void kf_main(const kf_bf16* src, kf_bf16* out, int rows, int columns) {  // of the output; src is stored as columns x rows
  __shared__ kf_bf16 square[64][66];
  const int i0 = blockIdx.x * 64, j0 = blockIdx.y * 64;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int item = e * 256 + threadIdx.x, j = item / 8, i = item % 8 * 8;
    const kf_vec<kf_bf16, 8> v = kf_load<8>(src + int64_t(j0 + j) * rows + i0 + i);
#pragma unroll
    for (int n = 0; n < 8; ++n) square[j][i + n] = v[n];
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int item = e * 256 + threadIdx.x, i = item / 8, j = item % 8 * 8;
    kf_vec<kf_bf16, 8> v;
#pragma unroll
    for (int n = 0; n < 8; ++n) v[n] = square[j + n][i];
    kf_store(out + int64_t(i0 + i) * columns + j0 + j, v);
  }
}
