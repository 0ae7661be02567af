// kind: a product and a sum
// call: add_fp32_alpha
// why: rounds the product
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"float": "0.3"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  float alpha = float(args[3].f);
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] + alpha * b[i];
}
