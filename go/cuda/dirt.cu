// Leaves a word in the shared memory and the registers of a multiprocessor: a block of 1,024 threads with 64 registers each has all of them.
//
// The values are loaded, not known to the compiler, and each is used twice with a sum of all of them between, so that all live at once.
extern "C" __global__ void __launch_bounds__(1024, 1) kf_dirt(unsigned* out, int word, int words) {
  extern __shared__ unsigned memory[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = (unsigned)word;
  __syncthreads();
  constexpr int held = 48;
  unsigned value[held], sum = 0;
#pragma unroll
  for (int i = 0; i < held; ++i) value[i] = memory[(threadIdx.x + 97 * i) % words];
#pragma unroll
  for (int i = 0; i < held; ++i) sum = sum * 31 + value[i];
#pragma unroll
  for (int i = 0; i < held; ++i) sum = (sum ^ value[i]) * 17;
  if (sum == 12345u && words < 0) out[0] = sum;  // never; but the compiler cannot know
}
