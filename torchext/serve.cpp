#include "serve.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

namespace kft {

namespace {

void run_parallel(void*, int64_t begin, int64_t end, int64_t grain, void (*body)(void*, int64_t, int64_t), void* body_ctx) {
  at::parallel_for(begin, end, grain, [body, body_ctx](int64_t b, int64_t e) { body(body_ctx, b, e); });
}

// The address of an empty output: not NULL, since a kernel may be given it, and nobody may touch it.
alignas(64) char nothing;

bool aligned(const void* pointer, uint32_t alignment) { return (reinterpret_cast<uintptr_t>(pointer) & (alignment - 1)) == 0; }

}  // namespace

kfr_parallel torch_parallel() { return {run_parallel, nullptr, at::get_num_threads()}; }

Served serve(const OpEntry& entry, Call& call, at::Tensor* fresh, const at::Tensor* const* written, uint32_t outputs) {
  if (written != nullptr) call.targets(written, outputs);
  call.finish();
  if (call.reason() != Reason::kServed) return {call.reason()};
  if (call.target() != Target::host) return {Reason::kNoPlan};  // the CUDA launcher is not part of this build

  const kfr_plan* plan = kfr_lookup(entry.id, call.device(), call.words().data(), call.words().count());
  if (plan == nullptr) return {Reason::kNoMatch};
  kfr_plan_info info;
  if (kfr_plan_info_get(plan, &info) != KFR_OK || info.inputs != call.slots() || info.outputs != outputs) return {Reason::kNoMatch};
  const kfr_parallel parallel = torch_parallel();
  if (info.threads != 0 && info.threads != parallel.threads) return {Reason::kThreads};
  if (!info.deterministic && at::globalContext().deterministicAlgorithms()) return {Reason::kDeterministic};

  constexpr uint32_t kMaxWorkspaces = 16;  // as csrc/src/spec.h
  if (info.workspaces > kMaxWorkspaces) return {Reason::kTooLarge};
  void* slots[Call::kMaxSlots + kMaxOutputs + kMaxWorkspaces];
  // Written tensors first: taking a mutable pointer may give a copy-on-write tensor its own memory.
  for (uint32_t o = 0; written != nullptr && o < outputs; ++o) slots[info.inputs + o] = written[o]->mutable_data_ptr();
  for (uint32_t i = 0; i < info.inputs; ++i) {
    slots[i] = const_cast<void*>(call.slot(i).const_data_ptr());
    if (slots[i] == nullptr) return {Reason::kNoData};
    if (!aligned(slots[i], info.align[i])) return {Reason::kAlignment};
  }
  for (uint32_t o = 0; written != nullptr && o < outputs; ++o) {
    if (!aligned(slots[info.inputs + o], info.align[info.inputs + o])) return {Reason::kAlignment};
  }
  for (uint32_t o = 0; fresh != nullptr && o < outputs; ++o) {
    kfr_output output;
    kfr_plan_output(plan, o, &output);
    fresh[o] =
        at::Tensor(at::detail::empty_strided_cpu(at::IntArrayRef(output.sizes, output.dim), at::IntArrayRef(output.strides, output.dim),
                                                 torch_dtype(output.dtype), /*pin_memory=*/false));
    slots[info.inputs + o] = fresh[o].numel() == 0 ? static_cast<void*>(&nothing) : fresh[o].mutable_data_ptr();
  }
  c10::DataPtr workspace;  // all of them, one behind the other
  if (info.workspaces != 0) {
    const auto padded = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
    uint64_t total = 0;
    for (uint32_t w = 0; w < info.workspaces; ++w) total += padded(info.workspace_bytes[w]);
    workspace = c10::GetCPUAllocator()->allocate(total);
    auto* next = static_cast<char*>(workspace.get());
    for (uint32_t w = 0; w < info.workspaces; ++w) {
      slots[info.inputs + outputs + w] = next;
      next += padded(info.workspace_bytes[w]);
    }
  }

  if (kfr_launch(plan, slots, info.inputs + outputs + info.workspaces, &parallel, nullptr, nullptr) != KFR_OK) return {Reason::kLaunch};
  kfr_plan_hit(plan);
  return {Reason::kServed, plan};
}

}  // namespace kft
