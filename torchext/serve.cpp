#include "serve.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include "device.h"

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

namespace {

constexpr uint32_t kMaxWorkspaces = 16;  // as csrc/src/spec.h

// Where a call's memory comes from and where its kernels run. On CUDA its device is current and its stream read once, so that what is allocated here
// belongs to the stream that the kernels are queued on, as eager's memory does: the allocator then hands it out again in that stream's order.
struct Place {
  c10::Allocator* allocator;
  void* stream;
  uint64_t workspace_align;  // between the workspaces: what the allocators give at least on each target
};

// All workspaces in one allocation, one behind the other.
c10::DataPtr workspaces(const kfr_plan_info& info, const Place& place, void** slots) {
  const auto padded = [&](uint64_t bytes) { return (bytes + place.workspace_align - 1) / place.workspace_align * place.workspace_align; };
  uint64_t total = 0;
  for (uint32_t w = 0; w < info.workspaces; ++w) total += padded(info.workspace_bytes[w]);
  c10::DataPtr memory = place.allocator->allocate(total);
  auto* next = static_cast<char*>(memory.get());
  for (uint32_t w = 0; w < info.workspaces; ++w) {
    slots[w] = next;
    next += padded(info.workspace_bytes[w]);
  }
  return memory;
}

// Whether torch's global settings are those under which eager does what the plan was judged against. They are no part of a call, so no guard word
// tells them apart. The default type decides what an operator makes of integers and Python numbers; with oneDNN switched off, eager takes other code
// on the CPU, whose special values differ (gelu of +inf). An `out` of another type than the default says nothing of the type that eager computes in.
bool settings_hold(const Call& call, const kfr_plan* plan, uint32_t outputs, Form form) {
  if (call.target() == Target::host && !at::globalContext().userEnabledMkldnn()) return false;
  if (call.typed()) return true;
  const uint32_t inputs = call.slots() - (form == Form::out ? outputs : 0);  // what an out form writes are its last tensors
  for (uint32_t i = 0; i < inputs; ++i) {
    if (call.slot(i).is_floating_point()) return true;
  }
  const at::ScalarType usual = c10::get_default_dtype_as_scalartype();
  for (uint32_t o = 0; o < outputs; ++o) {
    kfr_output output;
    kfr_plan_output(plan, o, &output);
    const at::ScalarType dtype = torch_dtype(output.dtype);
    if (at::isFloatingType(dtype) && dtype != usual) return false;
  }
  return true;
}

at::Tensor empty_output(const Call& call, const kfr_plan* plan, uint32_t index, const Place& place) {
  kfr_output output;
  kfr_plan_output(plan, index, &output);
  const at::IntArrayRef sizes(output.sizes, output.dim), strides(output.strides, output.dim);
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, place.allocator, call.plain(), torch_dtype(output.dtype)));
}

Served run(const Call& call, const kfr_plan* plan, const kfr_plan_info& info, const Place& place, const kfr_parallel* parallel,
           at::Tensor* fresh, const at::Tensor* const* written, uint32_t outputs) {
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
    // A copy-on-write tensor shared an input's memory when the guard was matched and has its own now: it is no alias any more.
    if (slots[info.inputs + o] != slots[call.alias(o)]) return {Reason::kOverlap};
  }
  const auto give_back = [&](Reason why) {  // before eager allocates the same again
    for (uint32_t o = 0; fresh != nullptr && o < outputs; ++o) fresh[o].reset();
    return Served{why};
  };
  c10::DataPtr memory;
  try {
    if (info.workspaces != 0) memory = workspaces(info, place, slots + info.inputs + outputs);
    for (uint32_t o = 0; fresh != nullptr && o < outputs; ++o) fresh[o] = empty_output(call, plan, o, place);
  } catch (const c10::Error&) {  // out of memory, which the host's allocator tells by no type of its own
    if (info.workspaces == 0) throw;
    return give_back(Reason::kMemory);  // eager needs no workspace, and finds room for its outputs where ours was
  }
  for (uint32_t o = 0; fresh != nullptr && o < outputs; ++o) {
    void* data = fresh[o].mutable_data_ptr();
    if (!aligned(data, info.align[info.inputs + o])) return give_back(Reason::kAlignment);  // an allocator of the user's may align to less
    slots[info.inputs + o] = data == nullptr ? static_cast<void*>(&nothing) : data;
  }

  kfr_error error;
  const kfr_status status = kfr_launch(plan, slots, info.inputs + outputs + info.workspaces, parallel, place.stream, &error);
  if (C10_LIKELY(status == KFR_OK)) {
    kfr_plan_hit(plan);
    return {Reason::kServed, plan};
  }
  // On CUDA the first kernels of several may be queued (KFR_DRIVER): what an in-place call overwrites is then gone, and eager would begin from it.
  TORCH_CHECK(written == nullptr || status != KFR_DRIVER, "kernelforge: plan `", info.id,
              "` was refused between its kernels, and the tensor that it writes may hold part of its result: ", error.text);
  return give_back(Reason::kLaunch);
}

// The plan's guard holds; what is left is what a guard cannot hold: settings, threads, addresses, memory.
Served attempt(const Call& call, const kfr_plan* plan, Form form, at::Tensor* fresh, const at::Tensor* const* written, uint32_t outputs) {
  kfr_plan_info info;
  if (kfr_plan_info_get(plan, &info) != KFR_OK || info.inputs != call.slots() || info.outputs != outputs) return {Reason::kNoMatch};
  if (info.workspaces > kMaxWorkspaces) return {Reason::kTooLarge};
  if (!info.deterministic && at::globalContext().deterministicAlgorithms()) return {Reason::kDeterministic};
  if (!settings_hold(call, plan, outputs, form)) return {Reason::kSettings};
  if (call.target() == Target::cuda) {
    const OnDevice current(call.device());
    return run(call, plan, info, {cuda_allocator(), current.stream(), 256}, nullptr, fresh, written, outputs);
  }
  const kfr_parallel parallel = torch_parallel();
  if (info.threads != 0 && info.threads != parallel.threads) return {Reason::kThreads};
  return run(call, plan, info, {c10::GetCPUAllocator(), nullptr, 64}, &parallel, fresh, written, outputs);
}

}  // namespace

Served serve(const OpEntry& entry, Call& call, at::Tensor* fresh, const at::Tensor* const* written, uint32_t outputs) {
  if (written != nullptr) call.targets(written, outputs);
  call.finish();
  if (call.reason() != Reason::kServed) return {call.reason()};
  // Eager's result lies where the first argument does in a copy of all its memory; a served one begins its own.
  if ((entry.marks & kFromStart) != 0 && call.slot(0).storage_offset() != 0) return {Reason::kRule};

  const kfr_plan* plan = kfr_lookup(entry.id, call.device(), call.words().data(), call.words().count());
  if (plan == nullptr) return {Reason::kNoMatch};
  const Served done = attempt(call, plan, entry.form, fresh, written, outputs);
  if (done.plan == nullptr) kfr_plan_fallback(plan, static_cast<uint32_t>(done.reason));
  return done;
}

}  // namespace kft
