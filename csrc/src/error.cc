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

// The length of the UTF-8 character at `at`, 1 for a byte that begins none. Names in images are any bytes; our texts are UTF-8.
size_t character(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  unsigned lead = byte(0), second = byte(1);
  size_t n = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
  bool second_good = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F) && !(lead == 0xF0 && second < 0x90) &&
                     !(lead == 0xF4 && second > 0x8F);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80 || !second_good) return 1;
  }
  return n;
}

}  // namespace

std::string ticked(std::string_view text) {
  std::string out = "`";
  size_t at = 0;
  for (size_t n; at < text.size() && out.size() + 4 <= kShownMax; at += n) {
    n = character(text, at);
    bool plain = n > 1 || (static_cast<unsigned char>(text[at]) >= 0x20 && static_cast<unsigned char>(text[at]) < 0x7F && text[at] != '`');
    if (plain)
      out += text.substr(at, n);
    else
      out += '?';
  }
  return out + (at < text.size() ? "...`" : "`");
}

std::string errno_text(int number) { return std::generic_category().message(number); }

void fill(kfr_error* error, kfr_status status, std::string_view text, std::string_view hint) noexcept {
  if (error == nullptr) return;
  error->code = status;
  copy_text(error->text, sizeof error->text, text);
  copy_text(error->hint, sizeof error->hint, hint);
}

}  // namespace kf
