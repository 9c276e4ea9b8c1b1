#include "models/adapter.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/file_writer.h"
#include "models/dora.h"
#include "models/saved_modules.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kOtherModel = "the adapter is of another model: name the one it was trained on";

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

std::string base_name(const std::string& module) { return cat("base_model.model.", module, ".base_layer.weight"); }

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += cat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

// Elements of a row of a tensor whose rows are a weight's.
std::int64_t row_width(const graph::TensorStore& store, const AdapterTensor& tensor) {
  const TensorDesc& desc = store.at(tensor.stored).desc;
  return num_elements(desc) / desc.shape[0];
}

std::vector<float> floats(const std::string& where, const checkpoint::SafetensorsTensor& tensor) {
  if (!tensor.dtype->dtype) {
    throw Failure(data_error(cat(where, ": tensor ", tensor.name), "a float dtype", std::string(tensor.dtype->name),
                             "save the adapter as float32"));
  }
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  checkpoint::to_f32(*tensor.dtype->dtype, tensor.bytes, values).value();
  return values;
}

// Whether the file has an adapter of the module: then all its tensors, of the right shapes, which are put into `used`.
bool find_tensors(const checkpoint::Safetensors& file, const std::string& where, const AdapterConfig& config,
                  const LinearModule& module, std::set<std::string>& used) {
  const std::int64_t rank = config.rank_of(module.name);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> wanted = {
      {peft_name(module.name, "lora_A"), {rank, module.in}}, {peft_name(module.name, "lora_B"), {module.out, rank}}};
  if (config.use_dora) wanted.push_back({peft_magnitude_name(module.name), {module.out}});
  std::size_t found = 0;
  std::vector<std::string> names;
  std::vector<std::string> shapes;
  std::vector<std::string> theirs;
  for (const auto& [name, shape] : wanted) {
    const auto* tensor = file.tensor(name);
    if (tensor != nullptr) ++found;
    names.push_back(name.substr(name.find(module.name) + module.name.size() + 1));
    shapes.push_back(shape_text(shape));
    theirs.push_back(tensor == nullptr ? "none" : shape_text(tensor->shape));
  }
  if (found == 0) return false;
  const std::string at = cat(where, ": module ", module.name);
  if (found < wanted.size()) {
    throw Failure(data_error(at, found == 1 && wanted.size() == 2 ? "both lora_A and lora_B" : join(names, ", "),
                             cat(found, " of them"), "the file is damaged: take it from the adapter's source again"));
  }
  if (shapes != theirs) throw Failure(data_error(at, join(shapes, " and "), join(theirs, " and "), kOtherModel));
  if (!config.selects(module.name)) {
    throw Failure(data_error(at, "no adapter, as adapter_config.json does not choose this module", "one",
                             "PEFT would leave it out: take it out of the file, or have the configuration choose it"));
  }
  for (const auto& [name, shape] : wanted) used.insert(name);
  return true;
}

void read_from(const checkpoint::Safetensors& file, const std::string& where, graph::TensorStore& store,
               const LoadedAdapter& adapter) {
  for (const auto& [module, layer] : adapter.layers) {
    const auto rows = adapter.rows.find(module);
    for (const auto& tensor : tensors_of(module, layer)) {
      std::vector<float> values = floats(where, *file.tensor(tensor.name));
      if (tensor.is_rows && rows != adapter.rows.end()) {
        reorder_rows({.parts = rows->second}, row_width(store, tensor), values, false);
      }
      store.upload(tensor.stored, std::as_bytes(std::span(values)));
    }
  }
  read_parts(store, adapter.parts, file);
}

}  // namespace

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
  nn::LoraLayer layer{config.rank_of(module), config.scaling_of(module), cat(adapter, "/", module, ".lora_A.weight"),
                      cat(adapter, "/", module, ".lora_B.weight")};
  if (config.use_dora) {
    layer.magnitude = cat(adapter, "/", module, ".lora_magnitude_vector");
    layer.inverse_norm = cat(adapter, "/", module, ".inverse_norm");
  }
  return layer;
}

LoadedAdapter create_adapter(LoadedModel& model, const std::string& adapter, const AdapterConfig& config,
                             const std::vector<LinearModule>& modules) {
  LoadedAdapter made{config, {}, {}, std::make_shared<graph::TensorScope>(model.store, "adapter")};
  for (const auto& module : modules) {
    if (config.use_dora && module.name == kHeadModule) {
      throw Failure(usage_error("DoRA on the head is not served", "drop --use_dora, or leave out lm_head"));
    }
    const nn::LoraLayer layer = lora_layer(adapter, module.name, config);
    made.tensors->create(layer.lora_a, make_desc(TERN_F32, {layer.rank, module.in}));
    made.tensors->create(layer.lora_b, make_desc(TERN_F32, {module.out, layer.rank}));
    if (!layer.magnitude.empty()) {
      made.tensors->create(layer.magnitude, make_desc(TERN_F32, {module.out}));
      made.tensors->create(layer.inverse_norm, make_desc(TERN_F32, {module.out}));
    }
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

std::vector<AdapterTensor> tensors_of(const std::string& module, const nn::LoraLayer& layer) {
  if (layer.in_parts) return {};
  std::vector<AdapterTensor> out = {{peft_name(module, "lora_A"), layer.lora_a, false},
                                    {peft_name(module, "lora_B"), layer.lora_b, true}};
  if (!layer.magnitude.empty()) out.push_back({peft_magnitude_name(module), layer.magnitude, true});
  return out;
}

std::vector<std::string> trained_tensors(const LoadedAdapter& adapter) {
  std::vector<std::string> out;
  for (const auto& [module, layer] : adapter.layers) {
    for (const auto& tensor : tensors_of(module, layer)) out.push_back(tensor.stored);
  }
  for (const AdapterPart& part : adapter.parts) {
    for (const auto& piece : part.pieces) out.push_back(piece.stored);
  }
  for (const ParameterSpec& spec : adapter.saved) out.push_back(spec.name);
  return out;
}

std::string peft_name(const std::string& module, const char* part) {
  return cat("base_model.model.", module, ".", part, ".weight");
}

std::string peft_magnitude_name(const std::string& module) {
  return cat("base_model.model.", module, ".lora_magnitude_vector");
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
      if (find_tensors(file, where, config, module, used)) modules.push_back(module);
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
    add_parts(loaded, std::move(parts));
    read_from(file, where, *model.store, loaded);
    file.intact().value();
    refresh_norms(model, loaded.layers);
    return loaded;
  });
}

void read_tensors(graph::TensorStore& store, const LoadedAdapter& adapter, const std::filesystem::path& directory) {
  const auto file = checkpoint::Safetensors::open_directory(directory, "adapter_model").value();
  read_from(file, (directory / "adapter_model.safetensors").string(), store, adapter);
  for (const ParameterSpec& spec : adapter.saved) {
    const std::vector<float> values = read_saved_parameter(file, spec);
    store.upload(spec.name, std::as_bytes(std::span(values)));
  }
}

void save_adapter(const graph::TensorStore& store, const LoadedAdapter& adapter,
                  const std::filesystem::path& directory) {
  std::vector<checkpoint::TensorSpec> specs;
  std::vector<AdapterTensor> tensors;
  std::vector<HeadParts> rows;
  for (const auto& [module, layer] : adapter.layers) {
    const auto reordered = adapter.rows.find(module);
    for (auto& tensor : tensors_of(module, layer)) {
      const auto shape = shape_of(store.at(tensor.stored).desc);
      specs.push_back({tensor.name, "F32", {shape.begin(), shape.end()}});
      rows.push_back(tensor.is_rows && reordered != adapter.rows.end() ? reordered->second : HeadParts{});
      tensors.push_back(std::move(tensor));
    }
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
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(tensors[i].stored).desc)));
    store.download(tensors[i].stored, std::as_writable_bytes(std::span(values)));
    if (rows[i].heads > 0) reorder_rows({.parts = rows[i]}, row_width(store, tensors[i]), values, true);
    writer.write(specs[i].name, std::as_bytes(std::span(values))).value();
  }
  writer.finish().value();
  io::write_file(directory / kConfigFile, adapter_config_json(adapter.config)).value();
}

}  // namespace tern::models
