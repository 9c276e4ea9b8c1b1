// The structs that calls of the C interface take, in one line.
#pragma once

#include <span>

#include "tern/accel.h"

namespace tern::test {

// Options of a plan that names its kernel; null: the device chooses.
inline tern_plan_options choosing(const char* choice) {
  tern_plan_options options{};
  options.size = sizeof options;
  options.choice = choice;
  return options;
}

inline tern_bind_args placed(std::span<const tern_tensor> args, tern_plane workspace = {}) {
  tern_bind_args out{};
  out.size = sizeof out;
  out.num_args = static_cast<std::uint32_t>(args.size());
  out.args = args.data();
  out.workspace = workspace;
  return out;
}

}  // namespace tern::test
