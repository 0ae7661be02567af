// support.cc: see support.h.
#include "support.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "error.h"
#include "kf_call.h"
#include "sha256.h"

namespace kf::testing {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / ("kfr-" + std::string(6, 'X'))).string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}
TempFolder::~TempFolder() { fs::remove_all(path_); }
void TempFolder::write(const std::string& name, const std::string& bytes) const {
  fs::path to = fs::path(path_) / name;
  fs::create_directories(to.parent_path());
  std::ofstream(to, std::ios::binary) << bytes;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

const char* const kPrelude = R"(
#include <stdint.h>
extern "C" { float expf(float); float tanhf(float); float powf(float, float); double erf(double); }
union kf_arg { void* p; int64_t i; double f; };
#define KF_ENTRY extern "C" __attribute__((visibility("default")))
)";

std::string build(const std::string& source, const std::string& more) {
  static std::map<std::pair<std::string, std::string>, std::string> made;
  auto [at, fresh] = made.try_emplace({source, more});
  if (!fresh) return at->second;
  TempFolder folder;
  folder.write("k.cc", kPrelude + source);
  std::string command =
      std::string(KF_CXX) + " -std=c++20 -O2 -fno-fast-math -ffp-contract=off -fno-exceptions -fno-rtti -fPIC -shared -nostartfiles" +
      " -fvisibility=hidden -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now -w -o " + folder.path() + "/k.so " + folder.path() + "/k.cc " + more;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  return at->second = read_text(folder.path() + "/k.so");
}

std::string scale_image() {
  return build(R"(
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = static_cast<const float*>(args[0].p);
  float* y = static_cast<float*>(args[1].p);
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * static_cast<float>(args[2].f) + static_cast<float>(args[3].i);
})");
}

std::string doc_example(const std::string& section, size_t n) {
  std::string text = read_text(std::string(KF_DOCS) + "/formats.md");
  size_t at = text.find("\n## " + section + "\n");
  if (at == std::string::npos) throw std::runtime_error("no section " + section);
  size_t end = text.find("\n## ", at + 1);
  for (size_t i = 0;; ++i) {
    size_t open = text.find("\n```", at + 1);
    if (open == std::string::npos || open > end) throw std::runtime_error("no such example in " + section);
    size_t from = text.find('\n', open + 1) + 1, close = text.find("\n```", from);
    if (i == n) return text.substr(from, close - from);
    at = close + 1;
  }
}

std::string sealed_pack(std::string json) {
  const std::string open = "{\"digest\": \"";
  if (json.compare(0, open.size() + 1, open + "\"") != 0) return json;
  json.insert(open.size(), 64, '0');
  return json.replace(open.size(), 64, sha256_hex(json));
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  size_t at = text.find(old);
  if (at == std::string::npos) throw std::runtime_error("nothing to replace: " + old);
  return text.replace(at, old.size(), fresh);
}

namespace {
std::string list(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return "[" + out + "]";
}
std::vector<int64_t> contiguous(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}
}  // namespace

std::string tensor_json(const std::string& name, const std::vector<int64_t>& sizes, const std::string& dtype) {
  return R"({"name": ")" + name + R"(", "kind": "tensor", "dtype": ")" + dtype + R"(", "sizes": )" + list(sizes) + R"(, "strides": )" +
         list(contiguous(sizes)) + "}";
}

std::string plan_json(const std::string& id, const std::vector<int64_t>& sizes, const std::string& overload) {
  std::string geometry = R"("dtype": "float32", "sizes": )" + list(sizes) + R"(, "strides": )" + list(contiguous(sizes));
  return R"({"id": ")" + id + R"(", "call": {"overload": ")" + overload + R"(", "args": [)" + tensor_json("self", sizes) +
         R"(], "outputs": [{)" + geometry +
         R"(, "alias": -1}]}, "spec": {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16",
         "args": [{"slot": "self"}, {"slot": "out0"}, {"float": "0x1p+1"}, {"int": "1"}]}]},
         "threads": 2, "align": [16, 16], "deterministic": true, "exact": true})";
}

PlanPtr make(const std::string& json, const std::string& image, int32_t device) {
  kfr_plan* plan = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_plan_create(json.data(), json.size(), image.data(), image.size(), device, &plan, &error), KFR_OK) << error.text;
  if (plan == nullptr) throw std::runtime_error(error.text);
  return PlanPtr(plan);
}

std::string refusal(const std::string& json, const std::string& image, kfr_status expected, int32_t device) {
  kfr_plan* plan = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_plan_create(json.data(), json.size(), image.data(), image.size(), device, &plan, &error), expected) << error.text;
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(error.code, expected);
  return error.text;
}

std::vector<int64_t> tensor_words(const std::vector<int64_t>& sizes) {
  CallWords words;
  words.tensor(KFR_F32, static_cast<int64_t>(sizes.size()), sizes.data(), contiguous(sizes).data());
  return {words.data(), words.data() + words.count()};
}

Pool::Pool(int32_t threads) {
  EXPECT_EQ(kfr_pool_create(threads, &pool, nullptr), KFR_OK);
  kfr_pool_parallel(pool, &parallel);
}
Pool::~Pool() { kfr_pool_free(pool); }

std::string error_of(const std::function<void()>& read, kfr_status expected) {
  try {
    read();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), expected) << e.text();
    return e.text();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace kf::testing
