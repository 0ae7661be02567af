// abi.cc: the C boundary. Arguments are checked for NULL here, and every exception ends here as a status and a kfr_error.
#ifdef KFR_EXPORT
#pragma GCC visibility push(default)
#endif
#include "kf_runtime.h"
#ifdef KFR_EXPORT
#pragma GCC visibility pop
#endif

#include <new>

#include "buffer.h"
#include "error.h"
#include "fault.h"
#include "image.h"
#include "pack.h"
#include "plan.h"
#include "pool.h"
#include "table.h"
#include "target.h"
#include "timing.h"
#include "words.h"

namespace {

template <class F>
kfr_status guarded(kfr_error* error, F&& body) noexcept {
  try {
    body();
    return KFR_OK;
  } catch (const kf::Error& e) {
    kf::fill(error, e.status(), e.text(), e.hint());
    return e.status();
  } catch (const std::bad_alloc&) { kf::fill(error, KFR_SYSTEM, "out of memory", ""); } catch (const std::exception& e) {
    kf::fill(error, KFR_SYSTEM, e.what(), "");
  }
  return KFR_SYSTEM;
}

void require(bool good, const char* what) {
  if (!good) throw kf::Error(KFR_BAD_ARGUMENT, what);
}

std::string_view view(const void* bytes, size_t n, const char* what) {
  require(bytes != nullptr || n == 0, what);
  return {static_cast<const char*>(bytes), n};
}

void run_pool(void* ctx, int64_t begin, int64_t end, int64_t grain, void (*body)(void*, int64_t, int64_t), void* body_ctx) {
  static_cast<kfr_pool*>(ctx)->run(begin, end, grain, body, body_ctx);
}

}  // namespace

extern "C" {

uint32_t kfr_abi_version(void) { return KFR_ABI_VERSION; }

kfr_status kfr_device_open(int32_t device, kfr_device_info* info, kfr_error* error) {
  return guarded(error, [&] {
    require(device >= 0, "open a device: expected an ordinal 0, 1, ... (the host needs no opening)");
    kfr_device_info found{};
    kf::target_of(device).describe(&found);
    if (info != nullptr) *info = found;
  });
}

int32_t kfr_dtype_from_name(const char* name) {
  const kf::DType* type = name == nullptr ? nullptr : kf::dtype_named(name);
  return type == nullptr ? 0 : type->id;
}

size_t kfr_dtype_size(int32_t dtype) {
  const kf::DType* type = kf::dtype_of(dtype);
  return type == nullptr ? 0 : static_cast<size_t>(type->size);
}

int32_t kfr_op_id(const char* overload) {
  int32_t id = -1;
  if (overload != nullptr) guarded(nullptr, [&] { id = kf::op_id(overload); });
  return id;
}

kfr_status kfr_expr_eval(const char* text, size_t text_n, const char* const* names, const int64_t* values, size_t count, int64_t* result,
                         kfr_error* error) {
  return guarded(error, [&] {
    require(result != nullptr && (count == 0 || (names != nullptr && values != nullptr)),
            "evaluate an expression: `names`, `values` or `result` is NULL");
    kf::Names known;
    for (size_t i = 0; i < count; ++i) {
      require(names[i] != nullptr, "evaluate an expression: a name is NULL");
      known.define(names[i], values[i]);
    }
    *result = kf::evaluate(view(text, text_n, "evaluate an expression: `text` is NULL"), known);
  });
}

kfr_status kfr_plan_create(const char* json, size_t json_n, const void* image, size_t image_n, int32_t device, kfr_plan** plan,
                           kfr_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr, "make a plan: `plan` is NULL");
    kf::json::Value root =
        kf::json::parse(view(json, json_n, "make a plan: `json` is NULL"), kf::kPlanBytesMax, KFR_BAD_SPEC, "make a plan");
    std::string_view code = view(image, image_n, "make a plan: `image` is NULL");
    try {
      *plan = kf::make_plan(kf::json::Node(root, "plan", KFR_BAD_SPEC), code, device).release();
    } catch (const kf::Error& e) { throw e.within("make a plan"); }
  });
}

void kfr_plan_free(kfr_plan* plan) {
  if (plan != nullptr && !plan->published.load(std::memory_order_relaxed)) delete plan;
}

kfr_status kfr_plan_info_get(const kfr_plan* plan, kfr_plan_info* info) {
  if (plan == nullptr || info == nullptr) return KFR_BAD_ARGUMENT;
  *info = {plan->id.c_str(),
           plan->op,
           plan->device,
           static_cast<uint32_t>(plan->inputs.size()),
           static_cast<uint32_t>(plan->outputs.size()),
           static_cast<uint32_t>(plan->workspace_bytes.size()),
           plan->align.data(),
           plan->workspace_bytes.data(),
           plan->workspace_zeroed.data(),
           plan->deterministic,
           plan->exact,
           plan->threads};
  return KFR_OK;
}

kfr_status kfr_plan_output(const kfr_plan* plan, uint32_t index, kfr_output* output) {
  if (plan == nullptr || output == nullptr || index >= plan->outputs.size()) return KFR_BAD_ARGUMENT;
  const kf::Tensor& t = plan->outputs[index];
  *output = {t.dtype, static_cast<int32_t>(t.sizes.size()), t.alias, t.sizes.data(), t.strides.data()};
  return KFR_OK;
}

kfr_status kfr_publish(kfr_plan* const* plans, size_t count, int32_t device, kfr_error* error) {
  return guarded(error, [&] {
    require(plans != nullptr || count == 0, "publish: `plans` is NULL");
    kf::publish({plans, count}, device);
  });
}

const kfr_plan* kfr_lookup(int32_t op, int32_t device, const int64_t* words, uint32_t count) {
  return kf::lookup(op, device, words, count);
}
int32_t kfr_has_plans(int32_t op, int32_t device) { return kf::has_plans(op, device); }
void kfr_plan_hit(const kfr_plan* plan) { plan->hits.fetch_add(1, std::memory_order_relaxed); }
uint64_t kfr_plan_hits(const kfr_plan* plan, int32_t reset) {
  return reset ? plan->hits.exchange(0, std::memory_order_relaxed) : plan->hits.load(std::memory_order_relaxed);
}
void kfr_plan_fallback(const kfr_plan* plan, uint32_t reason) {
  if (reason < KFR_MAX_REASONS) plan->fallbacks[reason].fetch_add(1, std::memory_order_relaxed);
}
uint64_t kfr_plan_fallbacks(const kfr_plan* plan, uint32_t reason, int32_t reset) {
  if (reason >= KFR_MAX_REASONS) return 0;
  std::atomic<uint64_t>& count = plan->fallbacks[reason];
  return reset != 0 ? count.exchange(0, std::memory_order_relaxed) : count.load(std::memory_order_relaxed);
}

kfr_status kfr_launch(const kfr_plan* plan, void* const* slots, uint32_t count, const kfr_parallel* parallel, void* stream,
                      kfr_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr && slots != nullptr, "launch: `plan` or `slots` is NULL");
    if (count != plan->slots()) {
      throw kf::Error(KFR_BAD_ARGUMENT, "launch " + kf::ticked(plan->id) + ": " + std::to_string(count) + " slots (expected " +
                                            std::to_string(plan->slots()) + ")");
    }
    try {
      plan->program->launch(slots, parallel, stream);
    } catch (const kf::Error& e) { throw e.within("launch " + kf::ticked(plan->id)); }
  });
}

kfr_status kfr_stream_wait(int32_t device, void* stream, kfr_error* error) {
  return guarded(error, [&] { kf::target_of(device).wait(stream); });
}

kfr_status kfr_pool_create(int32_t threads, kfr_pool** pool, kfr_error* error) {
  return guarded(error, [&] {
    require(pool != nullptr, "make a pool: `pool` is NULL");
    require(threads >= 1 && threads <= 4096, "make a pool: expected 1 to 4096 threads");
    *pool = new kfr_pool(threads);
  });
}

void kfr_pool_parallel(kfr_pool* pool, kfr_parallel* parallel) {
  if (pool != nullptr && parallel != nullptr) *parallel = {run_pool, pool, pool->threads()};
}
void kfr_pool_free(kfr_pool* pool) { delete pool; }
void kfr_pool_dirty(kfr_pool* pool, int32_t byte) {
  if (pool != nullptr) pool->leave(byte < 0 ? -1 : byte & 0xFF);
}

void kfr_images_unchecked(void) { kf::images_unchecked() = true; }

kfr_status kfr_code_check(const void* image, size_t image_n, const char* const* entries, size_t count, kfr_error* error) {
  return guarded(error, [&] {
    require(entries != nullptr || count == 0, "check the image: `entries` is NULL");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      require(entries[i] != nullptr, "check the image: an entry is NULL");
      names.emplace_back(entries[i]);
    }
    kf::check_host_image(view(image, image_n, "check the image: `image` is NULL"), names);
  });
}

kfr_status kfr_buffer_create(uint64_t bytes, int32_t device, kfr_buffer** buffer, kfr_error* error) {
  return guarded(error, [&] {
    require(buffer != nullptr, "make a buffer: `buffer` is NULL");
    *buffer = kf::target_of(device).make_buffer(bytes).release();
  });
}

kfr_status kfr_buffer_import(int32_t fd, uint64_t bytes, int32_t writable, int32_t device, kfr_buffer** buffer, kfr_error* error) {
  return guarded(error, [&] {
    require(buffer != nullptr, "import a buffer: `buffer` is NULL");
    *buffer = kf::target_of(device).import_buffer(fd, bytes, writable != 0).release();
  });
}

kfr_status kfr_buffer_fill(const kfr_buffer* buffer, uint64_t offset, uint64_t bytes, uint8_t value, kfr_error* error) {
  return guarded(error, [&] {
    require(buffer != nullptr, "fill a buffer: `buffer` is NULL");
    buffer->fill(offset, bytes, value);
  });
}

kfr_status kfr_buffer_push(const kfr_buffer* buffer, kfr_error* error) {
  return guarded(error, [&] {
    require(buffer != nullptr, "push a buffer: `buffer` is NULL");
    buffer->push();
  });
}

kfr_status kfr_buffer_pull(const kfr_buffer* buffer, kfr_error* error) {
  return guarded(error, [&] {
    require(buffer != nullptr, "pull a buffer: `buffer` is NULL");
    buffer->pull();
  });
}

void* kfr_buffer_data(const kfr_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->data(); }
uint64_t kfr_buffer_bytes(const kfr_buffer* buffer) { return buffer == nullptr ? 0 : buffer->bytes(); }
int32_t kfr_buffer_fd(const kfr_buffer* buffer) { return buffer == nullptr ? -1 : buffer->fd(); }
void kfr_buffer_free(kfr_buffer* buffer) { delete buffer; }

kfr_status kfr_time_plan(const kfr_plan* plan, void* const* sets, uint32_t nsets, uint32_t nslots, uint32_t samples, uint32_t inner,
                         int32_t warm, const kfr_parallel* parallel, void* stream, double* out_ns, kfr_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr && sets != nullptr && out_ns != nullptr, "time a plan: `plan`, `sets` or `out_ns` is NULL");
    kf::time_plan(*plan, {sets, nsets, nslots}, samples, inner, warm != 0, parallel, stream, out_ns);
  });
}

kfr_status kfr_time_reference(int32_t device, const kfr_parallel* parallel, void* stream, uint32_t samples, double* out_ns,
                              kfr_error* error) {
  return guarded(error, [&] {
    require(out_ns != nullptr, "time the reference kernel: `out_ns` is NULL");
    kf::target_of(device).time_reference(parallel, stream, samples, out_ns);
  });
}

kfr_status kfr_graph_time(int32_t device, void* graph_exec, void* stream, uint32_t samples, double* out_ns, kfr_error* error) {
  return guarded(error, [&] {
    require(graph_exec != nullptr && out_ns != nullptr, "time a graph: `graph_exec` or `out_ns` is NULL");
    kf::check_samples("time a graph", samples);
    kf::target_of(device).time_graph(graph_exec, stream, samples, out_ns);
  });
}

int64_t kfr_now_ns(void) { return kf::now_ns(); }

kfr_status kfr_fault_report(int32_t fd, kfr_error* error) {
  return guarded(error, [&] {
    require(fd >= 0, "report faults: no file descriptor");
    kf::report_faults(fd);
  });
}

kfr_status kfr_pack_open(const char* folder, const char* pins, size_t pins_n, int32_t device, kfr_pack** pack, kfr_error* error) {
  return guarded(error, [&] {
    require(folder != nullptr && pack != nullptr, "load a pack: `folder` or `pack` is NULL");
    std::string_view here(pins == nullptr ? "" : pins, pins == nullptr ? 0 : pins_n);
    *pack = kf::open_pack(folder, pins == nullptr ? nullptr : &here, device).release();
  });
}

kfr_plan* const* kfr_pack_plans(const kfr_pack* pack, size_t* count) {
  if (count != nullptr) *count = pack == nullptr ? 0 : pack->plans.size();
  return pack == nullptr ? nullptr : pack->plans.data();
}
void kfr_pack_free(kfr_pack* pack) { delete pack; }

}  // extern "C"
