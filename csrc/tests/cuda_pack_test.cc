// cuda_pack_test.cc: packs for CUDA: cubins by their hash, no thread count.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda_support.h"
#include "sha256.h"

namespace kf {
namespace {

using namespace testing;

class CudaPack : public CudaTest {
 protected:
  std::string json(const std::string& pins) const {
    auto ref = [](const std::string& bytes) {
      return R"({"sha256": ")" + sha256_hex(bytes) + R"(", "bytes": )" + std::to_string(bytes.size()) + "}";
    };
    std::string plan = replaced(cuda_plan_json("p-1", {8}), "\"exact\": true",
                                R"("exact": true, "card": "c-1", "variant": "v0", "node": 12, "state": "approved", "code": )" +
                                    ref(image_) + R"(, "source": )" + ref(source_) + R"(, "evidence": {})");
    return sealed_pack(R"({"digest": "", "schema": 1, "made": "2026-12-01T10:00:00Z", "target": "cuda", "pins": )" + pins +
                       R"(, "plans": [)" + plan + "]}");
  }
  kfr_status open(const char* pins, int32_t device = 0) {
    kfr_pack* pack = nullptr;
    kfr_status status = kfr_pack_open(folder_.path().c_str(), pins, strlen(pins), device, &pack, &error_);
    kfr_pack_plans(pack, &plans_);
    kfr_pack_free(pack);
    return status;
  }
  TempFolder folder_;
  std::string image_ = scale_cubin(), source_ = "// source\n";
  kfr_error error_{};
  size_t plans_ = 0;
};

const char* const kPins =
    R"({"torch": "2.11.0+cu130", "device": "NVIDIA H200", "runtime": "1", "toolchain": "nvrtc 13.0", "driver": 13000})";

TEST_F(CudaPack, OpensCubinsByTheirHash) {
  folder_.write("pack.json", json(kPins));
  folder_.write("source/" + sha256_hex(source_) + ".cu", source_);
  EXPECT_EQ(open(kPins), KFR_BAD_PACK);
  EXPECT_NE(std::string(error_.text).find("folder `code`"), std::string::npos) << error_.text;
  folder_.write("code/" + sha256_hex(image_) + ".cubin", image_);
  ASSERT_EQ(open(kPins), KFR_OK) << error_.text;
  EXPECT_EQ(plans_, 1u);
  EXPECT_EQ(open(kPins, KFR_HOST), KFR_BAD_PACK);
  EXPECT_NE(std::string(error_.text).find("field `pack.target` is the string `cuda` (expected `host`)"), std::string::npos) << error_.text;
}

TEST_F(CudaPack, ForAnotherGpuNothingIsLoaded) {
  folder_.write("pack.json", json(kPins));
  fake().clear();
  EXPECT_EQ(open(R"({"torch": "2.11.0+cu130", "device": "NVIDIA A100", "runtime": "1", "toolchain": "nvrtc 13.0", "driver": 13000})"),
            KFR_BAD_PIN);
  EXPECT_NE(std::string(error_.text).find("pin `device` is `NVIDIA H200` in the pack (this process has `NVIDIA A100`)"), std::string::npos);
  EXPECT_STREQ(fake().log(), "");
}

}  // namespace
}  // namespace kf
