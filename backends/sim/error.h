// How the functions of this backend fail.
#pragma once

#include <string>
#include <string_view>

#include "tern/accel.h"
#include "tern/plugin.h"

namespace tern::sim {

using tern_plugin::give_info;
using tern_plugin::put_text;
using SimError = tern_plugin::Error;

[[noreturn]] inline void fail(tern_status status, const std::string& text) { throw SimError(status, text); }

// Throws where `ok` is false: the caller broke the contract.
inline void require(bool ok, std::string_view text) {
  if (!ok) fail(TERN_INVALID_ARGUMENT, std::string(text));
}

void log(std::int32_t level, const std::string& line);  // to the host, where it listens
void set_log(void (*log)(std::int32_t level, const char* line));

}  // namespace tern::sim
