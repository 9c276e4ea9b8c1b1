#include "models/adapter_pairs.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "models/adapter_file.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

constexpr const char* kPairsAlone = "an adapter of pairs beside linear layers, as requests choose among";
constexpr const char* kServeAlone =
    "serve it alone with --adapters DIRECTORY, or put it into the weights with tern merge-lora";

// What the configuration says that is more than pairs; "": nothing.
std::string more_than_pairs(const AdapterConfig& config) {
  if (config.kind == AdapterKind::vera) return "VeRA";
  if (config.use_dora) return "DoRA";
  if (!config.began_as.empty()) return cat("init_lora_weights ", config.began_as, ", which changes the weights");
  if (config.bias != TrainedBiases::none) return cat("bias ", word_of(config.bias));
  if (!config.modules_to_save.empty()) return cat("modules_to_save ", join(config.modules_to_save, ", "));
  if (!config.target_parameters.empty()) return cat("target_parameters ", join(config.target_parameters, ", "));
  if (config.task_type == kClassification) return cat("task_type ", kClassification);
  return {};
}

AdapterPair read_pair(const checkpoint::Safetensors& file, const std::string& where, const AdapterConfig& config,
                      const LinearModule& module) {
  AdapterPair pair;
  pair.rank = config.rank_of(module.name);
  pair.a = floats(where, *file.tensor(peft_name(module.name, "lora_A")));
  pair.b = floats(where, *file.tensor(peft_name(module.name, "lora_B")));
  if (module.rows.heads > 0) reorder_rows({.parts = module.rows}, pair.rank, pair.b, false);
  const float scaling = config.scaling_of(module.name);
  std::ranges::transform(pair.b, pair.b.begin(), [&](float value) { return value * scaling; });
  return pair;
}

}  // namespace

Result<AdapterPairs> read_adapter_pairs(const ModelConfig& model, const std::filesystem::path& directory) {
  return catching([&] {
    const AdapterConfig config = read_adapter_config(directory).value();
    if (const std::string more = more_than_pairs(config); !more.empty()) {
      throw Failure(data_error((directory / "adapter_config.json").string(), kPairsAlone, more, kServeAlone));
    }
    const auto file = checkpoint::Safetensors::open_directory(directory, "adapter_model").value();
    const std::string where = (directory / "adapter_model.safetensors").string();
    AdapterPairs out;
    std::set<std::string> used;
    for (const LinearModule& module : linear_modules(model)) {
      if (!find_tensors(file, where, config, module, used)) continue;
      if (module.is_absorbed) {
        throw Failure(data_error(cat(where, ": module ", module.name), kPairsAlone,
                                 "one beside a product that latent attention takes in", kServeAlone));
      }
      AdapterPair pair = read_pair(file, where, config, module);
      out.rank = std::max(out.rank, pair.rank);
      out.pairs.emplace(module.name, std::move(pair));
    }
    std::set<std::string> known;  // to whom an adapter of its own kind could belong
    for (const LinearModule& module : adapter_modules(model)) known.insert(module.name);
    for (const auto& module : embedding_modules(model)) known.insert(module);
    for (const auto& tensor : file.tensors()) {
      if (used.contains(tensor.name)) continue;
      const bool is_known = std::ranges::any_of(
          known, [&](const std::string& module) { return tensor.name.starts_with(cat(kPeftPrefix, module, ".")); });
      throw Failure(data_error(cat(where, ": tensor ", tensor.name), kPairsAlone,
                               is_known ? "one of the head or of an embedding" : "one that this model has no place for",
                               is_known ? kServeAlone : kOtherModel));
    }
    file.intact().value();
    return out;
  });
}

}  // namespace tern::models
