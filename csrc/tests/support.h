// support.h: what several tests need: images compiled on the spot, plans as JSON, examples out of docs/formats.md, temporary folders.
#ifndef KF_TESTS_SUPPORT_H_
#define KF_TESTS_SUPPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "json.h"
#include "kf_runtime.h"

namespace kf::testing {

// A folder that is gone when the test is.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

// The command of docs/formats.md `host kernel`, as the judge runs it. `more` comes after its flags. Compiled once a process.
std::string build(const std::string& source, const std::string& more = "");
extern const char* const kPrelude;  // declares kf_arg and KF_ENTRY
std::string scale_image();          // kf_main(y = x * f + i): args x, y, float, int

std::string read_text(const std::string& path);
// The n-th fenced block of a section of docs/formats.md.
std::string doc_example(const std::string& section, size_t n = 0);

// `old` must be there: a test that edits JSON must not silently edit nothing.
std::string replaced(std::string text, const std::string& old, const std::string& fresh);
// A pack.json with the digest in its first field, `"digest": ""`; a text without that field as it is.
std::string sealed_pack(std::string json);

std::string tensor_json(const std::string& name, const std::vector<int64_t>& sizes, const std::string& dtype = "float32");
// A plan of aten::relu on one contiguous float32 tensor that computes y = 2x + 1, two threads.
std::string plan_json(const std::string& id, const std::vector<int64_t>& sizes, const std::string& overload = "aten::relu");

struct PlanFree {
  void operator()(kfr_plan* p) const { kfr_plan_free(p); }
};
using PlanPtr = std::unique_ptr<kfr_plan, PlanFree>;
// Fails the test on an error.
PlanPtr make(const std::string& json, const std::string& image, int32_t device = KFR_HOST);
// The error's text.
std::string refusal(const std::string& json, const std::string& image, kfr_status expected, int32_t device = KFR_HOST);

// The words of the call of a plan, as a hook would write them for one float32 tensor.
std::vector<int64_t> tensor_words(const std::vector<int64_t>& sizes);

class Pool {
 public:
  explicit Pool(int32_t threads = 2);
  ~Pool();
  Pool(const Pool&) = delete;
  kfr_parallel parallel{};
  kfr_pool* pool = nullptr;
};

// Runs `read` and returns the text of the Error that it must throw.
std::string error_of(const std::function<void()>& read, kfr_status expected);

}  // namespace kf::testing
#endif  // KF_TESTS_SUPPORT_H_
