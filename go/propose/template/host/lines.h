// The lines of a tensor along DIM, of which each becomes a line of the output: they are the work, DIM is not.
//
// args: output, input; for each dim the size, the output's stride, the input's stride.
struct Step { int64_t to, from; };  // of output and input
// Calls f(output, input, lines, step to the next line, elements of a line, step along it) for runs of lines.
template <class F> KF_INLINE void each_run(int64_t begin, int64_t end, const kf_arg* args, F f) {
  const kf_arg *size = args + 2, *to = size + DIMS, *from = to + DIMS;
  Loop<2> lines;
  for (int d = 0; d < DIMS; ++d)
    if (d != DIM) lines.dim(size[d].i, {to[d].i, from[d].i});
  lines.join();
  const Step next = {lines.stride[0][lines.dims - 1], lines.stride[1][lines.dims - 1]}, along = {to[DIM].i, from[DIM].i};
  lines.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
    for (int64_t r = 0; r < m; ++r)
      f((OUT*)args[0].p + offset[0] + r * lines.next(0), (const IN*)args[1].p + offset[1] + r * lines.next(1), n, next, size[DIM].i, along);
  });
}
