// What the driver's error codes mean, and failures on their way to the border.
#pragma once

#include <string>
#include <string_view>

#include "backends/cuda/driver.h"
#include "tern/plugin.h"

namespace tern::cuda {

using tern_plugin::Error;
using tern_plugin::fail;
using tern_plugin::give_info;
using tern_plugin::guarded;
using tern_plugin::HostArgs;
using tern_plugin::put_text;
using tern_plugin::require;

// The status that a code stands for.
[[nodiscard]] tern_status status_of(CUresult code);

// A failure in one line: what was tried, what the code means and what to do, then the driver's own name, text and
// number.
[[nodiscard]] std::string describe(std::string_view what, CUresult code);

// Throws Error where `code` is none of success: "what" says in plain words what was tried.
void check(CUresult code, std::string_view what);

}  // namespace tern::cuda
