// CANN's error codes in plain words, with what to do about them.
#pragma once

#include <string>

#include "backends/npu/cann/types.h"
#include "tern/accel.h"

namespace tern::npu {

// What a code means and how it is mended; for unknown ones a sentence that says so. Never empty.
[[nodiscard]] std::string explain(int code);
[[nodiscard]] tern_status status_of(int code);
// "what: plain words (code 107002): the library's own message".
[[nodiscard]] std::string describe_failure(const std::string& what, int code);
// Throws tern_plugin::Error where the code isn't 0.
void check(int code, const char* what);

}  // namespace tern::npu
