// error.h: how a failure travels inside the runtime: thrown as Error, turned into kfr_status and kfr_error in abi.cc alone.
//
// Text says what was tried, on which thing: what was found (expected what). The hint says what the reader can do.
#ifndef KF_ERROR_H_
#define KF_ERROR_H_

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "kf_runtime.h"

namespace kf {

class Error : public std::exception {
 public:
  Error(kfr_status status, std::string text, std::string hint = {}) : status_(status), text_(std::move(text)), hint_(std::move(hint)) {}
  kfr_status status() const { return status_; }
  const std::string& text() const { return text_; }
  const std::string& hint() const { return hint_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // The same failure with what the caller was doing in front.
  Error within(const std::string& context) const { return Error(status_, context + ": " + text_, hint_); }

 private:
  kfr_status status_;
  std::string text_, hint_;
};

// A name out of a file, safe to print: in backticks, shortened, without control characters.
std::string ticked(std::string_view text);

// The operating system's words for an errno value.
std::string errno_text(int number);

// Copies into a caller-owned kfr_error; NULL is allowed.
void fill(kfr_error* error, kfr_status status, std::string_view text, std::string_view hint) noexcept;

}  // namespace kf
#endif  // KF_ERROR_H_
