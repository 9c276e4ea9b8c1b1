#include "train/galore_targets.h"

#include <algorithm>

#include "base/strings.h"
#include "models/adapter.h"

namespace tern::train {

std::set<std::string> galore_parameters(const GaloreOptions& options, const models::LoadedModel& model) {
  std::set<std::string> out;
  const auto is_target = [&](const std::string& module) {
    return options.target_modules.empty() ||
           std::any_of(options.target_modules.begin(), options.target_modules.end(),
                       [&](const std::string& word) { return module.find(word) != std::string::npos; });
  };
  for (const auto& module : models::linear_modules(model.config)) {
    if (is_target(module.name)) out.insert(module.name + ".weight");
  }
  if (out.empty()) {
    throw Failure(usage_error(cat("--galore_target_modules \"", join(options.target_modules, " "), "\" is in no name"),
                              "give parts of layers' names, such as q_proj, or leave it out for all of them"));
  }
  if (options.with_embedding) out.insert("model.embed_tokens.weight");
  return out;
}

}  // namespace tern::train
