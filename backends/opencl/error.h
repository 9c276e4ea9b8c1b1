// What OpenCL's error codes mean, and failures on their way to the border.
#pragma once

#include <string_view>

#include "backends/opencl/cl.h"
#include "tern/plugin.h"

namespace tern::opencl {

using tern_plugin::Error;
using tern_plugin::fail;
using tern_plugin::give_info;
using tern_plugin::guarded;
using tern_plugin::HostArgs;
using tern_plugin::put_text;
using tern_plugin::require;

// The name of an error code: "CL_OUT_OF_RESOURCES".
[[nodiscard]] std::string_view error_name(cl_int code);

// The status that a code stands for.
[[nodiscard]] tern_status status_of(cl_int code);

// Throws Error where `code` is none of success: "what" says in plain words what was tried.
void check(cl_int code, std::string_view what);

}  // namespace tern::opencl
