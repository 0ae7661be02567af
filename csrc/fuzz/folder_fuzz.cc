// folder_fuzz.cc: any bytes as the files of a pack's folder, opened as a user's process opens it. The input is pack.json, a zero byte, the image, a
// zero byte, the source; pack.json is sealed and its hashes made right for half of the inputs, so that the readers behind them are reached.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "kf_runtime.h"
#include "sha256.h"

namespace {

std::string removed_at_exit;

const std::string& folder() {
  static const std::string made = [] {
    std::string name = "/tmp/kf-folder-fuzz-" + std::string(6, 'X');
    if (mkdtemp(name.data()) == nullptr) abort();
    for (const char* sub : {"/code", "/source"}) {
      if (mkdir((name + sub).c_str(), 0700) != 0) abort();
    }
    removed_at_exit = name;
    std::atexit([] { std::filesystem::remove_all(removed_at_exit); });
    return name;
  }();
  return made;
}

void write(const std::string& name, std::string_view bytes) {
  std::ofstream(folder() + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += fresh.size()) text.replace(at, old.size(), fresh);
  return text;
}

// `CODE` and `SOURCE` stand for the hashes, `DIGEST` for the digest.
std::string made_right(std::string text, std::string_view image, std::string_view source) {
  text = replaced(std::move(text), "CODE", kf::sha256_hex(image));
  text = replaced(std::move(text), "SOURCE", kf::sha256_hex(source));
  const size_t at = text.find("DIGEST");
  if (at == std::string::npos) return text;
  text.replace(at, 6, 64, '0');
  const std::string digest = kf::sha256_hex(text);
  return text.replace(at, 64, digest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t first = std::min(all.find('\0'), size), second = std::min(all.find('\0', first + 1), size);
  const std::string_view image = all.substr(std::min(first + 1, size), second - std::min(first + 1, second));
  const std::string_view source = all.substr(std::min(second + 1, size));
  write("pack.json", made_right(std::string(all.substr(0, first)), image, source));
  const std::string code = "code/" + kf::sha256_hex(image) + ".so", text = "source/" + kf::sha256_hex(source) + ".cc";
  write(code, image);
  write(text, source);
  kfr_pack* pack = nullptr;
  kfr_error error{};
  const kfr_status status = kfr_pack_open(folder().c_str(), nullptr, 0, KFR_HOST, &pack, &error);
  if ((status == KFR_OK) != (pack != nullptr)) abort();
  if (status != KFR_OK && *error.text == '\0') abort();
  size_t count = 0;
  kfr_pack_plans(pack, &count);
  if (status != KFR_OK && count != 0) abort();
  kfr_pack_free(pack);
  unlink((folder() + "/" + code).c_str());
  unlink((folder() + "/" + text).c_str());
  return 0;
}
