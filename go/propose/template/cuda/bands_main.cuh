// What kf_main of a max pool in bands begins with: the thread's band, and where its outputs lie.
  const kf_divider<INDEX> across = {bands, bands_magic}, strips = {strips_n, strips_n_magic}, samples = {channels, channels_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const INDEX band = across.split(i), first = strips.split(i) * ROWS;
  int64_t at = (int64_t(i) * height_out + first) * width_out + band * OUTS;
  const INDEX channel = samples.split(i);
  const Band b = {x + (int64_t(i) * sample_stride + int64_t(channel) * channel_stride + band * VEC), int(band) * VEC, int(width), int(height),
                  row_stride, aligned_tensor<VEC>(x)};
  const bool aligned_out = aligned_tensor<OUTS>(out) && aligned_tensor<OUTS>(index);
  int y = int(first) * SH - PH;  // the first row of the thread's first window
