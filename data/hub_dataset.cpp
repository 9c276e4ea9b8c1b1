#include "data/hub_dataset.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/strings.h"
#include "data/dataset_rows.h"
#include "hub/hub.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/yaml.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

constexpr std::uint64_t kMostReadme = std::uint64_t{4} << 20;  // bytes

// `*` stays inside a folder, `**` does not, `?` is one character.
bool matches(std::string_view pattern, std::string_view path) {
  // Positions to return to when the last star has to take one more character.
  std::size_t p = 0;
  std::size_t at = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;
  bool across = false;
  while (at < path.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      across = p + 1 < pattern.size() && pattern[p + 1] == '*';
      p += across ? 2 : 1;
      if (across && p < pattern.size() && pattern[p] == '/') ++p;  // `**/` also stands for no folder
      star = {p, at};
    } else if (p < pattern.size() && (pattern[p] == '?' ? path[at] != '/' : pattern[p] == path[at])) {
      ++p;
      ++at;
    } else if (star && (across || path[star->second] != '/')) {
      p = star->first;
      at = ++star->second;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> strings_of(const Json& value) {
  std::vector<std::string> out;
  if (value.is_string()) out.push_back(value.get<std::string>());
  for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
    if (value[i].is_string()) out.push_back(value[i].get<std::string>());
  }
  return out;
}

// Patterns of one configuration's training split.
std::vector<std::string> train_patterns(const Json& data_files) {
  if (data_files.is_string()) return strings_of(data_files);
  std::vector<std::string> out;
  for (std::size_t i = 0; data_files.is_array() && i < data_files.size(); ++i) {
    const Json& part = data_files[i];
    if (part.is_string()) out.push_back(part.get<std::string>());
    if (!part.is_object() || !part.contains("path")) continue;
    if (part.contains("split") && part["split"] != "train") continue;
    for (auto& pattern : strings_of(part["path"])) out.push_back(std::move(pattern));
  }
  return out;
}

Json read_configs(std::string_view readme, const std::string& where) {
  if (!readme.starts_with("---\n")) return nullptr;
  const std::size_t end = readme.find("\n---", 3);
  if (end == std::string_view::npos) return nullptr;
  const Json front = io::parse_yaml(readme.substr(4, end - 3), cat(where, "/README.md")).value();
  return front.is_object() && front.contains("configs") && front["configs"].is_array() ? front["configs"] : Json();
}

// Words of a path, parted by anything but letters and digits: "data/train-00000-of-00001.jsonl" has "train".
bool has_word(std::string_view path, std::string_view word) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = path.find(word); at != std::string_view::npos; at = path.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(path[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == path.size() || !is_word(path[end]))) return true;
  }
  return false;
}

std::vector<std::string> training_files(const std::vector<std::string>& files) {
  std::vector<std::string> train;
  std::vector<std::string> unnamed;
  for (const auto& file : files) {
    const bool other = has_word(file, "test") || has_word(file, "validation") || has_word(file, "valid") ||
                       has_word(file, "val") || has_word(file, "dev") || has_word(file, "eval");
    if (has_word(file, "train")) {
      train.push_back(file);
    } else if (!other) {
      unnamed.push_back(file);
    }
  }
  return train.empty() ? unnamed : train;
}

[[noreturn]] void no_subset(const std::string& where, const std::string& subset,
                            const std::vector<std::string>& known) {
  const std::string near = nearest(subset, known);
  throw Failure(data_error(where, cat("a subset \"", subset, "\""), "none such",
                           !near.empty()   ? cat("did you mean ", near, "?")
                           : known.empty() ? std::string("it names none: leave the subset out")
                                           : cat("it has ", join(known, ", "))));
}

// By the README's configurations; empty where they do not speak of data files.
std::vector<std::string> by_configs(const std::vector<std::string>& files, const Json& configs,
                                    const std::string& subset, const std::string& where) {
  std::vector<std::string> names;
  const Json* chosen = nullptr;
  for (const Json& config : configs) {
    if (!config.is_object() || !config.contains("config_name") || !config["config_name"].is_string()) continue;
    names.push_back(config["config_name"].get<std::string>());
    const bool is_default = names.back() == "default" || (config.contains("default") && config["default"] == true);
    const bool wanted = subset.empty() ? chosen == nullptr || is_default : names.back() == subset;
    if (wanted) chosen = &config;
  }
  if (chosen == nullptr && !subset.empty()) no_subset(where, subset, names);
  if (chosen == nullptr || !chosen->contains("data_files")) return {};
  std::vector<std::string> out;
  const std::string folder = chosen->contains("data_dir") && (*chosen)["data_dir"].is_string()
                                 ? cat((*chosen)["data_dir"].get<std::string>(), "/")
                                 : std::string();
  for (const auto& pattern : train_patterns((*chosen)["data_files"])) {
    for (const auto& file : files) {
      const bool is_new = std::find(out.begin(), out.end(), file) == out.end();
      if (is_new && matches(cat(folder, pattern), file)) out.push_back(file);
    }
  }
  return out;
}

std::vector<std::string> of_subset(const std::vector<std::string>& files, const std::string& subset,
                                   const std::string& where) {
  if (subset.empty()) return files;
  std::vector<std::string> out;
  std::set<std::string> known;
  for (const auto& file : files) {
    const fs::path path(file);
    const std::string stem = path.filename().string();
    bool found = stem.starts_with(subset) && !std::isalnum(static_cast<unsigned char>(stem.c_str()[subset.size()]));
    for (const auto& part : path.parent_path()) {
      known.insert(part.string());
      found = found || part == subset;
    }
    known.insert(stem.substr(0, stem.find('.')));
    if (found) out.push_back(file);
  }
  if (out.empty()) no_subset(where, subset, {known.begin(), known.end()});
  return out;
}

class Fetcher {
 public:
  Fetcher(std::string spec, const HubSettings& settings) : where_(std::move(spec)), options_() {
    std::string id = where_;
    const std::size_t after_prefix = id.starts_with("hf::") || id.starts_with("ms::") ? 4 : 0;
    if (const std::size_t colon = id.find(':', after_prefix); colon != std::string::npos) {
      subset_ = id.substr(colon + 1);
      id.resize(colon);
    }
    id_ = hub::parse_hub_id(id, hub::HubKind::dataset, settings.use_hf).value();
    options_ = hub::hub_options_from_environment(id_.hub);
    if (!settings.token.empty()) options_.token = settings.token;
    options_.progress = settings.progress;
  }

  std::vector<fs::path> run() {
    const fs::path folder = first_look();
    std::string readme;
    std::error_code ignored;
    if (!folder.empty() && fs::is_regular_file(folder / "README.md", ignored)) {
      readme = io::read_text_file(folder / "README.md", kMostReadme).value();
    }
    const auto chosen = choose_files(names_, readme, subset_, where_).value();
    options_.wanted = [&](const std::string& path, const std::vector<std::string>&) {
      return std::find(chosen.begin(), chosen.end(), path) != chosen.end();
    };
    const fs::path root = hub::fetch_repository(id_, options_).value();
    std::vector<fs::path> out;
    for (const auto& name : chosen) out.push_back(root / name);
    return out;
  }

 private:
  // The names of all files, and the README; offline, what an earlier run left.
  fs::path first_look() {
    hub::HubOptions look = options_;
    look.progress = nullptr;
    look.wanted = [&](const std::string& path, const std::vector<std::string>& all) {
      names_ = all;
      return path == "README.md";
    };
    auto folder = hub::fetch_repository(id_, look);
    if (!folder && names_.empty()) throw Failure(folder.error());
    const bool has_readme = std::find(names_.begin(), names_.end(), "README.md") != names_.end();
    if (!folder && has_readme) throw Failure(folder.error());
    if (!folder) return {};
    if (names_.empty()) {
      for (const auto& entry : fs::recursive_directory_iterator(*folder)) {
        if (entry.is_regular_file()) names_.push_back(fs::relative(entry.path(), *folder).string());
      }
    }
    std::sort(names_.begin(), names_.end());
    return *folder;
  }

  std::string where_;
  std::string subset_;
  hub::HubId id_;
  hub::HubOptions options_;
  std::vector<std::string> names_;
};

}  // namespace

Result<std::vector<std::string>> choose_files(const std::vector<std::string>& files, std::string_view readme,
                                              const std::string& subset, const std::string& where) {
  return catching([&] {
    std::vector<std::string> data;
    std::copy_if(files.begin(), files.end(), std::back_inserter(data), is_data_file);
    // Descriptions beside the rows, not rows.
    std::erase_if(data, [](const std::string& file) {
      const std::string name = fs::path(file).filename().string();
      return name == "dataset_infos.json" || name == "dataset_info.json" || name == "configuration.json";
    });
    if (data.empty())
      throw Failure(data_error(where, "a data set with .jsonl, .json, .csv or .parquet files", "none",
                               "name a data set with rows in such files"));
    const Json configs = read_configs(readme, where);
    std::vector<std::string> chosen;
    if (configs.is_array()) chosen = by_configs(data, configs, subset, where);
    if (chosen.empty()) chosen = training_files(of_subset(data, subset, where));
    if (chosen.empty())
      throw Failure(data_error(where, "files of a training split", "those of other splits alone",
                               "fetch it, and name the file that is meant"));
    return chosen;
  });
}

HubResolver hub_resolver(HubSettings settings) {
  return [settings = std::move(settings)](const std::string& id) {
    return guarded(cat("fetching ", id), [&] { return Fetcher(id, settings).run(); });
  };
}

}  // namespace tern::data
