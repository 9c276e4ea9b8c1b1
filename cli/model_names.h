// The models known by a short name, and where `--model` leads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::cli {

struct BundledModel {
  std::string_view name;
  std::string_view file;  // under <home>/models/<name>/
  std::uint64_t bytes;
  std::string_view sha256;  // of the file
  std::string_view origin;
  std::string_view licence;
};

[[nodiscard]] std::span<const BundledModel> bundled_models();

// $TERN_HOME, else $HOME/.cache/tern.
[[nodiscard]] std::string tern_home();

// Where the bundled model's file is or would be.
[[nodiscard]] std::string bundled_path(const BundledModel& model);

// The directory or file that `model` names: a path that exists, or a bundled short name that is installed. Hub ids are
// not fetched here. Errors are of kind data (exit 3).
[[nodiscard]] Result<std::string> resolve_model(const std::string& model);

}  // namespace tern::cli
