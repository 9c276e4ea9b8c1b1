#include "models/gguf_names.h"

#include <cmath>
#include <map>
#include <memory>

#include "base/strings.h"
#include "checkpoint/logical_tensors.h"
#include "models/registry.h"
#include "models/rope.h"

namespace tern::models {
namespace {

using SpecsByName = std::map<std::string, ParameterSpec>;

// Sets `rename` and `row_order` once every parameter was found with its shape.
void set_names(const checkpoint::CheckpointSource& source, const ModelConfig& config, bool to_gguf,
               checkpoint::ConvertOptions& options) {
  auto specs = std::make_shared<SpecsByName>();
  for (const auto& spec : find_architecture(config.architecture)->parameters(config)) {
    (*specs)[to_gguf ? spec.name : spec.gguf.name] = spec;
  }
  SpecsByName missing = *specs;
  for (const auto& tensor : checkpoint::logical_tensors(source).value()) {
    const auto found = missing.find(tensor.name);
    if (found == missing.end()) continue;
    if (tensor.shape != found->second.shape) {
      throw Failure(data_error(cat(source.path().string(), ": tensor ", tensor.name),
                               "the shape that its configuration implies", "another",
                               "configuration and weights belong to different models"));
    }
    missing.erase(found);
  }
  if (!missing.empty()) {
    throw Failure(data_error(cat(source.path().string(), ": tensor ", missing.begin()->first),
                             cat("all tensors of ", config.architecture), cat(missing.size(), " absent"),
                             "the checkpoint is of another architecture, or its configuration is"));
  }
  options.rename = [specs, to_gguf, config, &source](const std::string& name) -> std::string {
    const auto found = specs->find(name);
    if (found != specs->end()) return to_gguf ? found->second.gguf.name : found->second.name;
    if (is_needless(source, name, config)) return {};
    throw Failure(data_error(cat(source.path().string(), ": tensor ", name), "only tensors whose other name is known",
                             "one without", "the checkpoint is of another architecture, or its configuration is"));
  };
  options.row_order = [specs, to_gguf](const std::string& name) -> std::vector<std::int64_t> {
    const auto found = specs->find(name);
    if (found == specs->end()) return {};
    return to_gguf ? rows_for_gguf(found->second) : gguf_rows(found->second);
  };
}

std::string size_label(std::int64_t parameters) {
  const double millions = static_cast<double>(parameters) / 1e6;
  return millions < 1000 ? cat(std::llround(millions), "M") : cat(fixed(millions / 1000, 1), "B");
}

}  // namespace

Status set_gguf_form(const checkpoint::CheckpointSource& source, const ModelConfig& config, const std::string& name,
                     checkpoint::ConvertOptions& options) {
  return catching([&] {
    const Architecture& architecture = *find_architecture(config.architecture);
    set_names(source, config, true, options);
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", architecture.gguf);
    metadata.set("general.type", "model");
    metadata.set("general.name", name);
    metadata.set("general.size_label", size_label(config.num_parameters()));
    set_gguf_config(config, metadata);
    options.metadata = std::move(metadata);
    if (config.rope_scaling != RopeScaling::llama3) return Unit{};
    if (!architecture.gguf_rope_factors) {
      throw Failure(data_error(cat(source.path().string(), ": the rope_type"), "default or linear for a GGUF",
                               "llama3, which llama.cpp does not read from one of this architecture",
                               "keep this model as a directory"));
    }
    options.added.push_back({"rope_freqs.weight", {config.rotary_dim / 2}, rope_factors(config)});
    return Unit{};
  });
}

Result<ModelConfig> set_hugging_face_form(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                          checkpoint::ConvertOptions& options) {
  return catching([&] {
    set_names(source, config, false, options);
    require_named_rope(config, cat(source.path().string(), ": tensor rope_freqs.weight"));
    return config;
  });
}

}  // namespace tern::models
