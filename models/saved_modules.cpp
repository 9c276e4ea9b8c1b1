#include "models/saved_modules.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/checkpoint_source.h"
#include "io/json.h"
#include "models/adapter.h"
#include "models/adapter_file.h"
#include "models/parameter_reader.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

// The head's weight where the embedding's stands for it; none where it has one of its own, or never has.
std::optional<std::string> tied_embedding(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  if (!config.tie_word_embeddings || architecture.head == nullptr || config.head != ModelHead::language)
    return std::nullopt;
  ModelConfig apart = config;
  apart.tie_word_embeddings = false;
  const std::string shared = architecture.head(config).weight;
  if (architecture.head(apart).weight == shared) return std::nullopt;
  return shared;
}

// Every module that holds the parameter, from the outermost in: "model", "model.norm" of "model.norm.weight".
bool is_inside(const std::string& parameter, const std::string& module_ends_with) {
  for (std::size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1)) {
    if (std::string_view(parameter).substr(0, dot).ends_with(module_ends_with)) return true;
  }
  return false;
}

// Whether PEFT's name of it is the checkpoint's, and the file's numbers are rows of the parameter.
bool is_plain(const ParameterSpec& spec) {
  const ParameterSource& source = spec.hugging_face;
  return source.tensors == std::vector{spec.name} && !source.is_stack && source.joined.empty() &&
         source.tensor_rows == 0 && !transposes_any(source) && source.woven_columns == 0 && source.shape.empty();
}

constexpr std::string_view kBias = ".bias";

// Whether transformers has it as the bias of a module, which no checkpoint keeps within another tensor.
bool is_bias_of_module(const ParameterSpec& spec) { return spec.hugging_face.tensors.front().ends_with(kBias); }

// The modules that the adapter has a pair beside.
std::set<std::string> adapted_modules(const ModelConfig& config, const AdapterConfig& adapter) {
  std::set<std::string> out;
  for (const LinearModule& module : adapter_modules(config)) {
    if (adapter.selects(module.name)) out.insert(module.name);
  }
  const bool is_all = adapter.target_modules.empty() || adapter.target_modules[0] == kAllLinear;
  for (const std::string& module : embedding_modules(config)) {
    if (!is_all && adapter.selects(module)) out.insert(module);
  }
  return out;
}

void add_biases(const ModelConfig& config, const AdapterConfig& adapter, const std::set<std::string>& adapted,
                SavedModules& out) {
  if (adapter.bias == TrainedBiases::none) return;
  for (const ParameterSpec& spec : parameters_of(config)) {
    if (!is_bias_of_module(spec) || spec.is_buffer || out.has(spec.name)) continue;
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    const bool is_adapted = adapted.contains(module);
    if (!is_adapted && adapter.bias == TrainedBiases::lora_only) continue;
    const std::string name =
        is_adapted ? cat(kPeftPrefix, module, ".base_layer", kBias) : kPeftPrefix + spec.hugging_face.tensors.front();
    out.parameters.push_back({spec, name, !spec.is_frozen});
  }
}

// Without them the adapter would be of another model.
void add_grown(const ModelConfig& config, const std::set<std::string>& adapted, SavedModules& out) {
  for (const ParameterSpec& spec : parameters_of(out.unties ? untied(config) : config)) {
    if (spec.added_rows == 0 || out.has(spec.name)) continue;
    const std::string module = module_of(spec);
    out.parameters.push_back(
        {spec, cat(kPeftPrefix, module, adapted.contains(module) ? ".base_layer" : "", ".weight"), false});
  }
  if (config.added_rows > 0 && !out.unties && tied_embedding(config)) {
    out.copies.push_back(cat(kPeftPrefix, kHeadModule, ".weight"));
  }
}

std::int64_t columns_of(const ParameterSpec& spec) { return spec.shape.size() < 2 ? 1 : spec.shape.back(); }

}  // namespace

bool SavedModules::has(const std::string& parameter) const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const SavedParameter& each) { return each.spec.name == parameter; });
}

ModelConfig untied(ModelConfig config) {
  if (!tied_embedding(config)) return config;
  config.tie_word_embeddings = false;
  if (!config.json) return config;
  io::Json json = *config.json;  // what is written again
  if (json.contains("text_config")) json["text_config"]["tie_word_embeddings"] = false;
  json["tie_word_embeddings"] = false;
  config.json = std::make_shared<io::Json>(std::move(json));
  return config;
}

std::vector<std::string> saved_module_names(const ModelConfig& config, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const std::string& name : names) {
    if (name != "all-embedding" && name != "all-norm") {
      add(name);
      continue;
    }
    for (const ParameterSpec& spec : parameters_of(config)) {
      const std::string module = module_of(spec);
      const bool is_embedding = last_part(module).starts_with("embed");
      const bool is_norm = spec.shape.size() == 1 && last_part(module).ends_with("norm");
      if (name == "all-embedding" ? is_embedding : is_norm) add(last_part(module));
    }
  }
  return out;
}

Result<SavedModules> saved_modules(const ModelConfig& config, const std::vector<std::string>& names) {
  return catching([&] {
    SavedModules out;
    const auto specs = parameters_of(untied(config));
    std::set<std::string> found;
    for (const ParameterSpec& spec : specs) {
      bool chosen = false;
      for (const std::string& name : names) {
        if (!is_inside(spec.name, name)) continue;
        chosen = true;
        found.insert(name);
      }
      if (!chosen || spec.is_buffer || spec.is_frozen) continue;
      if (!is_plain(spec)) {
        throw Failure(usage_error(cat("--modules_to_save names ", module_of(spec),
                                      ", which PEFT's file would hold in tensors of another kind than the model's"),
                                  "train such weights with --target_parameters or --tuner_type full"));
      }
      out.parameters.push_back({spec, kPeftPrefix + spec.name});
    }
    for (const std::string& name : names) {
      if (found.contains(name)) continue;
      std::set<std::string> parts;
      for (const ParameterSpec& spec : specs) parts.insert(last_part(module_of(spec)));
      throw Failure(usage_error(cat("--modules_to_save ", name, " ends no module's name"),
                                cat("choose from ", join({parts.begin(), parts.end()}, ", "))));
    }
    if (const auto shared = tied_embedding(config)) {
      const std::string own = find_architecture(config.architecture)->head(untied(config)).weight;
      out.unties = out.has(*shared) || out.has(own);
    }
    return out;
  });
}

Result<SavedModules> saved_beside(const ModelConfig& config, const AdapterConfig& adapter) {
  return catching([&] {
    SavedModules out = saved_modules(config, adapter.modules_to_save).value();
    const std::set<std::string> adapted = adapted_modules(config, adapter);
    add_biases(config, adapter, adapted, out);
    add_grown(config, adapted, out);
    return out;
  });
}

void drop_absent(SavedModules& modules, const checkpoint::Safetensors& file) {
  std::erase_if(modules.parameters,
                [&](const SavedParameter& each) { return !each.is_trained && file.tensor(each.name) == nullptr; });
  std::erase_if(modules.copies, [&](const std::string& name) { return file.tensor(name) == nullptr; });
}

bool is_needless_copy(const std::string& name) {
  const std::string owner = name.substr(0, name.rfind('.'));
  return owner.ends_with(".original_module") || owner.ends_with(".modules_to_save");
}

void untie_head(LoadedModel& model, const std::function<bool(const std::string& name)>& is_master) {
  const auto shared = tied_embedding(model.config);
  if (!shared) return;
  const auto specs = parameters_of(model.config);
  ParameterSpec spec =
      *std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& each) { return each.name == *shared; });
  model.config = untied(model.config);
  spec.name = model.architecture->head(model.config).weight;
  LoadOptions options;
  options.dtype = model.dtype;
  options.is_master = is_master;
  ParameterReader reader(*model.source, encoder_prefix(model.config));
  (void)load_parameters(std::span(&spec, 1), reader, model.source, *model.store, options).value();
}

std::vector<float> read_saved_parameter(const checkpoint::Safetensors& file, const SavedParameter& parameter) {
  const ParameterSpec& spec = parameter.spec;
  const auto* tensor = file.tensor(parameter.name);
  if (tensor == nullptr || tensor->shape != spec.shape || !tensor->dtype->dtype) {
    const std::string where = file.files().front()->path();
    throw Failure(data_error(cat(where, ": tensor ", parameter.name),
                             is_bias_of_module(spec)
                                 ? "a bias that was trained, by modules_to_save or bias of adapter_config.json"
                                 : "the weight of a module that modules_to_save of adapter_config.json names",
                             tensor == nullptr ? "none" : "another shape or dtype",
                             "the adapter is of another model, or damaged: take it from its source again"));
  }
  std::vector<float> values = floats_of(*tensor);
  reorder_rows(spec.hugging_face, columns_of(spec), values, false);
  to_parameter(spec.hugging_face, columns_of(spec), values);
  return values;
}

void require_own_modules(const LoadedModel& model, const std::filesystem::path& adapter) {
  if (model.saved_modules_of.empty() || model.saved_modules_of == adapter) return;
  throw Failure(usage_error(cat("the model holds modules that were trained with the adapter ",
                                model.saved_modules_of.string(), ", so it can serve no other"),
                            "open the model again"));
}

Status load_saved_modules(LoadedModel& model, const checkpoint::Safetensors& file,
                          const std::vector<SavedParameter>& parameters, std::set<std::string>& used) {
  return catching([&] {
    for (const SavedParameter& parameter : parameters) {
      const ParameterSpec& spec = parameter.spec;
      const std::vector<float> values = read_saved_parameter(file, parameter);
      used.insert(parameter.name);
      // Anew, as what is there may be pages of the model's file.
      const TensorDesc& held = model.store->at(spec.name).desc;
      const tern_dtype dtype = held.dtype == TERN_F32 && !is_quantised(held) ? tern_dtype{TERN_F32} : model.dtype;
      model.store->erase(spec.name);
      model.store->create(spec.name, make_desc(dtype, spec.shape));
      model.store->upload(spec.name, rounded(spec.name, values, dtype));
    }
    return Unit{};
  });
}

std::vector<float> saved_values(const graph::TensorStore& store, const ParameterSpec& spec) {
  const TensorDesc& desc = store.at(spec.name).desc;
  std::vector<float> values(static_cast<std::size_t>(num_elements(desc)));
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(dtype_bytes(desc.dtype)));
  store.download(spec.name, bytes);
  checkpoint::to_f32(desc.dtype, bytes, values).value();
  to_file(spec.hugging_face, columns_of(spec), values);
  reorder_rows(spec.hugging_face, columns_of(spec), values, true);
  return values;
}

}  // namespace tern::models
