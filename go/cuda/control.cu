// A kernel without a fault, on which compute-sanitizer's tools are tried before they are believed: it reads a byte of an input, passes words through
// shared memory with a barrier, and writes a workspace before it reads it.
extern "C" __global__ void __launch_bounds__(64) kf_main(const unsigned char* input, unsigned* words) {
  __shared__ unsigned passed[64];
  passed[threadIdx.x] = input[0] + threadIdx.x;
  __syncthreads();
  words[threadIdx.x] = passed[63 - threadIdx.x];
  if (words[threadIdx.x] == 0xffffffffu) words[threadIdx.x] = 0;
}
