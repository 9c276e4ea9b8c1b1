// The models on this machine that `--model` can name without a path: bundled ones, and what was fetched from hubs.
#pragma once

#include <string>
#include <vector>

#include "hub/cached.h"
#include "session/model_names.h"

namespace tern::session {

// Whether the bundled model's file is there, by its size.
[[nodiscard]] bool is_installed(const BundledModel& model);

struct FetchedModel {
  std::string name;  // as --model takes it: hf::ORG/NAME
  hub::CachedRepository repository;
  std::string architecture;  // what its config.json names first; "": it has none
  bool served = false;       // the architecture is one that tern computes
};
// In the caches of Hugging Face and of ModelScope, where their variables say they are.
[[nodiscard]] std::vector<FetchedModel> fetched_models();

}  // namespace tern::session
