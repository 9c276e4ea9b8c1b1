// The models known by a short name, and where `--model` leads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/flags/arguments.h"

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

// How a hub is asked, from the flags --use_hf, --hub_token and --model_revision, those that the command has.
struct HubFlags {
  bool use_hf = false;
  std::string token;  // "": the hub's own variables
  std::string revision;
};
[[nodiscard]] HubFlags hub_flags(const Arguments& arguments);

// The directory or file that `model` names: a path that exists, a bundled short name that is installed, or a hub id,
// whose files are fetched with progress on stderr. Errors are of kind data (exit 3); a revision of what is no hub id
// and Ctrl-C are of their own.
[[nodiscard]] Result<std::string> resolve_model(const std::string& model, const HubFlags& hub = {});

}  // namespace tern::cli
