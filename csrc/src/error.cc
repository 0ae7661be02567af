// error.cc: printing names safely, and copying text into the fixed-size kfr_error.
#include "error.h"

#include <cstring>
#include <system_error>

namespace kf {
namespace {

constexpr size_t kShownMax = 96;

// Copies at most n-1 bytes and never ends inside a UTF-8 sequence.
void copy_text(char* to, size_t n, std::string_view from) noexcept {
  size_t len = from.size() < n - 1 ? from.size() : n - 1;
  if (len < from.size()) {
    while (len > 0 && (static_cast<unsigned char>(from[len]) & 0xC0) == 0x80) --len;
  }
  if (len > 0) std::memcpy(to, from.data(), len);
  to[len] = 0;
}

}  // namespace

std::string ticked(std::string_view text) {
  bool cut = text.size() > kShownMax;
  if (cut) {
    size_t n = kShownMax;
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
    text = text.substr(0, n);
  }
  std::string out = "`";
  for (char c : text) out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '`') ? '?' : c;
  return out + (cut ? "...`" : "`");
}

std::string errno_text(int number) { return std::generic_category().message(number); }

void fill(kfr_error* error, kfr_status status, std::string_view text, std::string_view hint) noexcept {
  if (error == nullptr) return;
  error->code = status;
  copy_text(error->text, sizeof error->text, text);
  copy_text(error->hint, sizeof error->hint, hint);
}

}  // namespace kf
