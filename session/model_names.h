// The models known by a short name, and where `--model` leads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::session {

struct BundledModel {
  std::string_view name;
  std::string_view file;  // under <home>/models/<name>/
  std::uint64_t bytes;
  std::string_view sha256;  // of the file
  std::string_view origin;
  std::string_view licence;
};

[[nodiscard]] std::span<const BundledModel> bundled_models();

// Where the bundled model's file is or would be.
[[nodiscard]] std::string bundled_path(const BundledModel& model);

// How a hub is asked.
struct HubOptions {
  bool use_hf = false;           // a bare ORG/NAME is Hugging Face's
  std::string token;             // "": the hub's own variables
  std::string revision;          // branch, tag or commit; "": the hub's default branch
  bool without_weights = false;  // its config.json and tokenizer alone, of what is not here yet
  bool mmproj = false;           // the vision tower's file beside a GGUF, too (session/mmproj.h)
  // Called as bytes arrive; false stops the download, and what was fetched is kept.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
};

// The directory or file that `model` names: a path that exists, a bundled short name that is installed, or a hub id,
// whose files are fetched. Errors: data; usage for a revision of what is no hub id; interrupted where progress stopped
// it.
[[nodiscard]] Result<std::string> resolve_model(const std::string& model, const HubOptions& hub = {});

}  // namespace tern::session
