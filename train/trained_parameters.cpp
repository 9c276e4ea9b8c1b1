#include "train/trained_parameters.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/strings.h"
#include "models/registry.h"
#include "tokenizer/regex.h"

namespace tern::train {
namespace {

using models::ParameterSpec;
using Specs = std::vector<ParameterSpec>;

std::int64_t size_of(const ParameterSpec& spec) {
  std::int64_t size = 1;
  for (const std::int64_t each : spec.shape) size *= each;
  return size;
}

// Of "model.layers.7.mlp.up_proj.weight": "model.layers.7."; empty outside of layers.
std::string layer_of(const std::string& name) {
  const std::size_t at = name.find("layers.");
  return at == std::string::npos ? std::string() : name.substr(0, name.find('.', at + 7) + 1);
}

// As transformers registers them: a layer's own norms come behind its attention and its mlp.
std::vector<const ParameterSpec*> in_order(const Specs& specs) {
  std::vector<const ParameterSpec*> out;
  for (auto at = specs.begin(); at != specs.end();) {
    const std::string layer = layer_of(at->name);
    const auto end = std::find_if(at, specs.end(), [&](const ParameterSpec& s) { return layer_of(s.name) != layer; });
    std::vector<const ParameterSpec*> own;
    for (; at != end; ++at) {
      const std::string rest = at->name.substr(layer.size());
      const bool is_own_norm = !layer.empty() && std::count(rest.begin(), rest.end(), '.') == 1;
      (is_own_norm ? own : out).push_back(&*at);
    }
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

// The first whole weights that the share of all numbers has room for.
std::set<std::string> share(const Specs& specs, double ratio) {
  std::set<std::string> frozen;
  if (ratio <= 0) return frozen;
  std::int64_t total = 0;
  for (const ParameterSpec& spec : specs) total += size_of(spec);
  const auto room = static_cast<std::int64_t>(static_cast<double>(total) * ratio);
  std::int64_t so_far = 0;
  for (const ParameterSpec* spec : in_order(specs)) {
    so_far += size_of(*spec);
    if (so_far > room) break;
    frozen.insert(spec->name);
  }
  return frozen;
}

std::set<std::string> beginning(const Specs& specs, const char* flag, const std::vector<std::string>& prefixes) {
  std::set<std::string> out;
  for (const std::string& prefix : prefixes) {
    bool found = false;
    for (const ParameterSpec& spec : specs) {
      if (!spec.name.starts_with(prefix)) continue;
      out.insert(spec.name);
      found = true;
    }
    if (found) continue;
    throw Failure(usage_error(cat("--", flag, " \"", prefix, "\" begins no weight's name"),
                              cat("give a prefix of a name such as ", specs[0].name, "; `tern inspect` lists them")));
  }
  return out;
}

std::set<std::string> matching(const Specs& specs, const char* flag, const std::string& pattern) {
  std::set<std::string> out;
  if (pattern.empty()) return out;
  const auto matched = catching([&] {
    const tokenizer::Regex regex(pattern, false, cat("flag --", flag));
    for (const ParameterSpec& spec : specs) {
      std::vector<tokenizer::Range> found;
      regex.find_all(spec.name, found);
      if (!found.empty()) out.insert(spec.name);
    }
    return Unit{};
  });
  if (!matched) {
    const auto& error = matched.error();
    throw Failure(usage_error(cat("--", flag, " \"", pattern, "\" is not a regular expression: it needs ",
                                  error.expected, " and has ", error.found),
                              "write it as Python's re takes it"));
  }
  if (out.empty()) {
    throw Failure(usage_error(cat("--", flag, " \"", pattern, "\" matches no weight's name"),
                              cat("match names such as ", specs[0].name, "; `tern inspect` lists them")));
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> trained_parameters(const Selection& selection, const models::ModelConfig& config) {
  return catching([&] {
    const Specs specs = models::find_architecture(config.architecture)->parameters(config);
    std::set<std::string> frozen = share(specs, selection.freeze_parameters_ratio);
    frozen.merge(beginning(specs, "freeze_parameters", selection.freeze_parameters));
    frozen.merge(matching(specs, "freeze_parameters_regex", selection.freeze_parameters_regex));
    std::set<std::string> trained = beginning(specs, "trainable_parameters", selection.trainable_parameters);
    trained.merge(matching(specs, "trainable_parameters_regex", selection.trainable_parameters_regex));
    std::vector<std::string> names;
    for (const ParameterSpec& spec : specs) {
      const bool is_frozen = frozen.contains(spec.name) && !trained.contains(spec.name);
      if (!is_frozen && !spec.is_buffer && !spec.is_frozen) names.push_back(spec.name);
    }
    if (names.empty()) {
      throw Failure(
          usage_error("--freeze_parameters freezes every weight", "let some be trained with --trainable_parameters"));
    }
    return names;
  });
}

}  // namespace tern::train
