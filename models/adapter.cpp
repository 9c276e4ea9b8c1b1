#include "models/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/file_writer.h"
#include "io/json_field.h"
#include "models/saved_modules.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kAnew = "take the file from the adapter's repository or checkpoint again";
constexpr const char* kOtherModel = "the adapter is of another model: name the one it was trained on";

// Features of PEFT that change the computation and are not served: silently ignoring one would give wrong answers.
void refuse_unserved(const io::JsonField& json) {
  constexpr const char* kMerge = "merge that adapter with PEFT first";
  for (const char* key : {"use_dora", "layers_to_transform", "rank_pattern", "alpha_pattern", "fan_in_fan_out",
                          "trainable_token_indices", "use_qalora", "ensure_weight_tying"}) {
    const auto feature = json.find(key);
    if (feature && feature->json() != false && !feature->json().empty())
      throw feature->wrong("an adapter without it", kMerge);
  }
  for (const auto& [key, only] : {std::pair{"peft_type", "LORA"}, std::pair{"bias", "none"}}) {
    const auto given = json.find(key);
    if (given && given->json() != only) throw given->wrong(only, kMerge);
  }
}

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

std::string base_name(const std::string& module) { return cat("base_model.model.", module, ".base_layer.weight"); }

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string tensor_shape(const checkpoint::SafetensorsTensor& tensor) {
  std::string out = "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) out += cat(i == 0 ? "" : ", ", tensor.shape[i]);
  return out + "]";
}

}  // namespace

float AdapterConfig::scaling() const {
  const double divisor = use_rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
  return static_cast<float>(alpha / divisor);
}

Result<AdapterConfig> read_adapter_config(const std::filesystem::path& directory) {
  return catching([&] {
    const std::filesystem::path file = directory / kConfigFile;
    const Json text = io::read_json_file(file).value();
    const io::JsonField json(text, file.string(), kAnew);
    refuse_unserved(json);
    AdapterConfig config;
    const double rank = json.number("r", 8);
    if (!(rank >= 1 && rank <= 65536) || rank != std::floor(rank)) throw json.at("r").wrong("a rank from 1 to 65536");
    config.rank = static_cast<std::int64_t>(rank);
    config.alpha = json.number("lora_alpha", 8);
    config.dropout = json.number("lora_dropout", 0);
    if (!(config.dropout >= 0 && config.dropout < 1)) throw json.at("lora_dropout").wrong("a share from 0 to below 1");
    config.use_rslora = json.boolean("use_rslora", false);
    if (const auto targets = json.find("target_modules")) {
      if (targets->json().is_string()) {
        config.target_modules = {std::string(targets->text())};
      } else {
        config.target_modules = targets->texts();
      }
    }
    config.base_model = json.text("base_model_name_or_path", "");
    if (const auto named = json.find("target_parameters")) config.target_parameters = named->texts();
    if (const auto saved = json.find("modules_to_save")) config.modules_to_save = saved->texts();
    return config;
  });
}

std::string adapter_config_json(const AdapterConfig& config) {
  Json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = config.base_model;
  json["r"] = config.rank;
  json["lora_alpha"] = config.alpha;
  json["lora_dropout"] = config.dropout;
  json["use_rslora"] = config.use_rslora;
  json["target_modules"] = config.target_modules;
  if (!config.target_parameters.empty()) json["target_parameters"] = config.target_parameters;
  if (!config.modules_to_save.empty()) json["modules_to_save"] = config.modules_to_save;
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  return io::write_json(json);
}

std::vector<LinearModule> linear_modules(const LoadedModel& model) {
  std::vector<LinearModule> out;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    if (!spec.is_linear) continue;
    out.push_back({module_of(spec), spec.shape[1], spec.shape[0], spec.hugging_face.parts});
  }
  return out;
}

std::vector<LinearModule> adapter_modules(const LoadedModel& model) {
  auto out = linear_modules(model);
  if (model.architecture->head == nullptr || model.config.head != ModelHead::language) return out;
  const TensorDesc& head = model.store->at(model.architecture->head(model.config).weight).desc;
  out.push_back({kHeadModule, head.shape[1], head.shape[0], {}});
  return out;
}

Result<std::vector<LinearModule>> select_modules(const LoadedModel& model, const std::vector<std::string>& targets) {
  const auto all = adapter_modules(model);
  const bool all_linear = std::find(targets.begin(), targets.end(), "all-linear") != targets.end();
  std::vector<std::string> names = embedding_modules(model);
  for (const auto& module : all) names.push_back(module.name);
  std::vector<LinearModule> chosen;
  std::set<std::string> parts;
  for (const auto& name : names) parts.insert(last_part(name));
  for (const auto& target : targets) {
    if (target == "all-linear" || target == "all-embedding") continue;
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return is_named(name, target); })) {
      return usage_error(cat("--target_modules ", target, " names no linear layer of this model"),
                         cat("choose all-linear, all-embedding, or from ", join({parts.begin(), parts.end()}, ", ")));
    }
  }
  for (const auto& module : all) {
    const bool taken = std::any_of(targets.begin(), targets.end(),
                                   [&](const std::string& target) { return is_named(module.name, target); });
    if (taken || (all_linear && module.name != kHeadModule)) chosen.push_back(module);
  }
  return chosen;
}

std::vector<std::string> select_embeddings(const LoadedModel& model, const std::vector<std::string>& targets) {
  std::vector<std::string> chosen = embedding_modules(model);
  std::erase_if(chosen, [&](const std::string& module) {
    return std::none_of(targets.begin(), targets.end(), [&](const std::string& target) {
      return target == "all-embedding" || is_named(module, target);
    });
  });
  return chosen;
}

nn::LoraLayer lora_layer(const std::string& adapter, const std::string& module, const AdapterConfig& config) {
  return {config.rank, config.scaling(), cat(adapter, "/", module, ".lora_A.weight"),
          cat(adapter, "/", module, ".lora_B.weight")};
}

LoadedAdapter create_adapter(LoadedModel& model, const std::string& adapter, const AdapterConfig& config,
                             const std::vector<LinearModule>& modules) {
  LoadedAdapter made{config, {}, {}, std::make_shared<graph::TensorScope>(model.store, "adapter")};
  for (const auto& module : modules) {
    const nn::LoraLayer layer = lora_layer(adapter, module.name, config);
    made.tensors->create(layer.lora_a, make_desc(TERN_F32, {config.rank, module.in}));
    made.tensors->create(layer.lora_b, make_desc(TERN_F32, {module.out, config.rank}));
    made.layers[module.name] = layer;
    if (module.rows.heads > 0) made.rows[module.name] = module.rows;
  }
  return made;
}

void add_parts(LoadedAdapter& adapter, AdapterParts parts) {
  create_parts(*adapter.tensors, parts);
  adapter.layers.merge(parts.layers);
  adapter.parts = std::move(parts.parts);
}

std::string peft_name(const std::string& module, const char* part) {
  return cat("base_model.model.", module, ".", part, ".weight");
}

Result<LoadedAdapter> load_adapter(LoadedModel& model, const std::string& adapter,
                                   const std::filesystem::path& directory) {
  return catching([&] {
    const AdapterConfig config = read_adapter_config(directory).value();
    const auto file = checkpoint::Safetensors::open_directory(directory, "adapter_model").value();
    const std::string where = (directory / "adapter_model.safetensors").string();
    std::set<std::string> used;
    require_own_modules(model, directory);
    const SavedModules saved = saved_modules(model.config, config.modules_to_save).value();
    if (saved.unties) untie_head(model);
    load_saved_modules(model, file, saved.parameters, used).value();
    if (!saved.parameters.empty()) model.saved_modules_of = directory;
    std::vector<LinearModule> modules;
    std::vector<std::string> embeddings = embedding_modules(model);
    for (const std::string& module : embeddings)
      used.insert(base_name(module));  // the model's own: PEFT writes it, too
    used.insert(base_name(kHeadModule));
    std::erase_if(embeddings, [&](const auto& module) { return file.tensor(embedding_name(module)) == nullptr; });
    AdapterParts parts = adapter_parts(model, adapter, config, embeddings).value();
    for (const auto& part : parts.parts) used.insert(part.name);
    for (const auto& module : adapter_modules(model)) {
      const auto* a = file.tensor(peft_name(module.name, "lora_A"));
      const auto* b = file.tensor(peft_name(module.name, "lora_B"));
      if (a == nullptr && b == nullptr) continue;
      if (a == nullptr || b == nullptr) {
        throw Failure(data_error(cat(where, ": module ", module.name), "both lora_A and lora_B", "one of them",
                                 "the file is damaged: take it from the adapter's source again"));
      }
      if (a->shape != std::vector{config.rank, module.in} || b->shape != std::vector{module.out, config.rank}) {
        throw Failure(data_error(cat(where, ": module ", module.name),
                                 cat("[", config.rank, ", ", module.in, "] and [", module.out, ", ", config.rank, "]"),
                                 cat(tensor_shape(*a), " and ", tensor_shape(*b)), kOtherModel));
      }
      used.insert(a->name);
      used.insert(b->name);
      modules.push_back(module);
    }
    for (const auto& tensor : file.tensors()) {
      if (!used.contains(tensor.name)) {
        throw Failure(data_error(cat(where, ": tensor ", tensor.name),
                                 cat("a LoRA pair of a linear layer of ", model.config.architecture),
                                 "one that this model has no place for", kOtherModel));
      }
    }
    LoadedAdapter loaded = create_adapter(model, adapter, config, modules);
    loaded.saved = saved.parameters;
    for (const auto& [module, layer] : loaded.layers) {
      for (const auto& [part, name] : {std::pair{"lora_A", layer.lora_a}, std::pair{"lora_B", layer.lora_b}}) {
        const auto& tensor = *file.tensor(peft_name(module, part));
        std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(name).desc)));
        if (!tensor.dtype->dtype) {
          throw Failure(data_error(cat(where, ": tensor ", tensor.name), "a float dtype",
                                   std::string(tensor.dtype->name), "save the adapter as float32"));
        }
        checkpoint::to_f32(*tensor.dtype->dtype, tensor.bytes, values).value();
        if (name == layer.lora_b && loaded.rows.contains(module)) {
          reorder_rows({.parts = loaded.rows.at(module)}, config.rank, values, false);
        }
        model.store->upload(name, std::as_bytes(std::span(values)));
      }
    }
    add_parts(loaded, std::move(parts));
    read_parts(*model.store, loaded.parts, file);
    file.intact().value();
    return loaded;
  });
}

void save_adapter(const graph::TensorStore& store, const LoadedAdapter& adapter,
                  const std::filesystem::path& directory) {
  std::vector<checkpoint::TensorSpec> specs;
  std::vector<std::string> stored;
  std::map<std::string, HeadParts> file_rows;  // by stored name
  for (const auto& [module, layer] : adapter.layers) {
    if (layer.in_parts) continue;
    for (const auto& [part, name] : {std::pair{"lora_A", layer.lora_a}, std::pair{"lora_B", layer.lora_b}}) {
      const auto shape = shape_of(store.at(name).desc);
      specs.push_back({peft_name(module, part), "F32", {shape.begin(), shape.end()}});
      stored.push_back(name);
    }
    if (const auto rows = adapter.rows.find(module); rows != adapter.rows.end()) file_rows[layer.lora_b] = rows->second;
  }
  for (const ParameterSpec& spec : adapter.saved) specs.push_back({saved_name(spec), "F32", spec.shape});
  for (const AdapterPart& part : adapter.parts) specs.push_back({part.name, "F32", part.shape});
  checkpoint::SafetensorsWriteOptions options;
  options.stem = "adapter_model";
  auto writer = checkpoint::SafetensorsWriter::create(directory, specs, options).value();
  for (const ParameterSpec& spec : adapter.saved) {
    const std::vector<float> values = saved_values(store, spec);
    writer.write(saved_name(spec), std::as_bytes(std::span(values))).value();
  }
  for (const AdapterPart& part : adapter.parts) {
    const std::vector<float> values = part_values(store, part);
    writer.write(part.name, std::as_bytes(std::span(values))).value();
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(stored[i]).desc)));
    store.download(stored[i], std::as_writable_bytes(std::span(values)));
    if (const auto rows = file_rows.find(stored[i]); rows != file_rows.end()) {
      reorder_rows({.parts = rows->second}, adapter.config.rank, values, true);
    }
    writer.write(specs[i].name, std::as_bytes(std::span(values))).value();
  }
  writer.finish().value();
  io::write_file(directory / kConfigFile, adapter_config_json(adapter.config)).value();
}

}  // namespace tern::models
