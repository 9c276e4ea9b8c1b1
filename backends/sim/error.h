// How the functions of this backend fail.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "tern/accel.h"

namespace tern::sim {

class SimError : public std::exception {
 public:
  SimError(tern_status status, std::string text) : status_(status), text_(std::move(text)) {}
  [[nodiscard]] tern_status status() const { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  tern_status status_;
  std::string text_;
};

[[noreturn]] inline void fail(tern_status status, std::string text) { throw SimError(status, std::move(text)); }

// Throws where `ok` is false: the caller broke the contract.
inline void require(bool ok, std::string_view text) {
  if (!ok) fail(TERN_INVALID_ARGUMENT, std::string(text));
}

// Remembers `text` as the calling thread's last error; gives `status` back.
tern_status remember(tern_status status, std::string text);
void last_error(tern_text out);
void log(std::int32_t level, const std::string& line);  // to the host, where it listens
void set_log(void (*log)(std::int32_t level, const char* line));
void put_text(tern_text out, std::string_view text);  // cut to fit, terminated

}  // namespace tern::sim
