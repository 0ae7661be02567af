// cuda_support.h: what the CUDA tests need: the fake driver and its controls, made-up cubins, plans for them.
#ifndef KF_TESTS_CUDA_SUPPORT_H_
#define KF_TESTS_CUDA_SUPPORT_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "fake_cuda.h"
#include "support.h"

namespace kf::testing {

// The controls of the fake driver, and a few of its functions, called as another part of the process would call them.
struct FakeCuda {
  decltype(&kf_fake_log) log;
  decltype(&kf_fake_clear) clear;
  decltype(&kf_fake_fail) fail;
  decltype(&kf_fake_fault) fault;
  decltype(&kf_fake_capture_elsewhere) capture_elsewhere;
  decltype(&kf_fake_set) set;
  decltype(&kf_fake_alive) alive;
  decltype(&kf_fake_complaints) complaints;
  cuda::Result (*get_current)(cuda::Context* context);
  cuda::Result (*set_current)(cuda::Context context);
};
const FakeCuda& fake();

// The lines of the log that begin with a word, without it.
std::vector<std::string> logged(const std::string& word);

// A test that leaves the fake as it found it, and fails on what the fake complains of.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

// An ELF for machine 190 with an empty `.text.<kernel>` for each kernel that `info` names (fake_cuda_code.cc, read_info). `host` is an x86-64 shared
// object with those kernels; "" for kernels that do nothing. `variables`: bytes of zero-initialized variables.
std::string cubin(const std::string& info, const std::string& host = "", uint64_t variables = 0);
// kf_main(x, y, f32 f, i32 i, i64 n): y = x * f + i.
std::string scale_cubin();

// A plan of aten::relu for scale_cubin(): y = 2x + 1, blocks of 256.
std::string cuda_plan_json(const std::string& id, const std::vector<int64_t>& sizes);
// The same with other kernels and workspaces.
std::string cuda_plan_json(const std::string& id, const std::vector<int64_t>& sizes, const std::string& workspaces,
                           const std::string& kernels);

struct BufferFree {
  void operator()(kfr_buffer* b) const { kfr_buffer_free(b); }
};
using BufferPtr = std::unique_ptr<kfr_buffer, BufferFree>;
BufferPtr device_buffer(uint64_t bytes, int32_t device = 0);
template <class T = float>
T* at(const BufferPtr& buffer, size_t index = 0) {  // the fake's device memory is the host's
  return static_cast<T*>(kfr_buffer_data(buffer.get())) + index;
}

// For death tests: a process in which nothing of CUDA happened yet opens device 0 under these variables, tells the error, exits with its status.
[[noreturn]] void open_in_fresh_process(const std::map<std::string, std::string>& environment, int32_t device = 0);

}  // namespace kf::testing
#endif  // KF_TESTS_CUDA_SUPPORT_H_
