// pack_fuzz.cc: any bytes as pack.json, with and without pins; what is read is held to the promises that opening files relies on.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "error.h"
#include "pack.h"

namespace {

bool hash(const std::string& s) {
  return s.size() == 64 && std::all_of(s.begin(), s.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

void read(std::string_view text, const std::string_view* pins) {
  try {
    for (const kf::PackPlan& plan : kf::read_pack(text, pins, KFR_HOST)) {
      if (!hash(plan.code.sha256) || !hash(plan.source.sha256) || plan.code.bytes <= 0 || plan.id.find('/') != std::string::npos) abort();
      try {
        kf::make_plan(kf::json::Node(plan.json, "plan", KFR_BAD_SPEC), "", KFR_HOST);
        abort();  // there is no image
      } catch (const kf::Error&) {}
    }
  } catch (const kf::Error&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size), pins = R"({"torch": "2.15.0+cpu", "threads": 2})";
  read(text, nullptr);
  read(text, &pins);
  read("{}", &text);  // pins come from our own process, but a reader is a reader
  return 0;
}
