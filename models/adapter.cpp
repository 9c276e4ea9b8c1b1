#include "models/adapter.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <set>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/file_writer.h"
#include "models/adapter_file.h"
#include "models/dora.h"
#include "models/initial_pairs.h"
#include "models/stored_tensors.h"
#include "models/vera.h"

namespace tern::models {
namespace {

constexpr const char* kConfigFile = "adapter_config.json";

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

std::string base_name(const std::string& module) { return cat(kPeftPrefix, module, ".base_layer.weight"); }

// Elements of a row of a tensor whose rows are a weight's.
std::int64_t row_width(const graph::TensorStore& store, const AdapterTensor& tensor) {
  const TensorDesc& desc = store.at(tensor.stored).desc;
  return num_elements(desc) / desc.shape[0];
}

// A pair's tensor and what it began as, in the order of the file: of A one below the other, of B side by side.
struct Halves {
  std::vector<float> trained;
  std::vector<float> initial;
};
Halves halves_of(const std::vector<float>& both, bool side_by_side, std::int64_t rows) {
  const auto half = static_cast<std::ptrdiff_t>(both.size() / 2);
  if (!side_by_side) return {{both.begin(), both.begin() + half}, {both.begin() + half, both.end()}};
  Halves out;
  const std::ptrdiff_t width = half / rows;
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const auto begin = both.begin() + 2 * row * width;
    out.trained.insert(out.trained.end(), begin, begin + width);
    std::transform(begin + width, begin + 2 * width, std::back_inserter(out.initial), std::negate<>());
  }
  return out;
}
std::vector<float> joined(const Halves& halves, bool side_by_side, std::int64_t rows) {
  std::vector<float> both;
  const auto width = static_cast<std::ptrdiff_t>(halves.trained.size()) / rows;
  for (std::ptrdiff_t row = 0; side_by_side && row < rows; ++row) {
    const auto trained = halves.trained.begin() + row * width;
    const auto initial = halves.initial.begin() + row * width;
    both.insert(both.end(), trained, trained + width);
    std::transform(initial, initial + width, std::back_inserter(both), std::negate<>());
  }
  if (side_by_side) return both;
  both = halves.trained;
  both.insert(both.end(), halves.initial.begin(), halves.initial.end());
  return both;
}

// `with_initial`: what pairs began as stands in the file, too.
void read_pairs(const checkpoint::Safetensors& file, const std::string& where, graph::TensorStore& store,
                const LoadedAdapter& adapter, bool with_initial) {
  for (const auto& [module, layer] : adapter.layers) {
    const auto rows = adapter.rows.find(module);
    for (const auto& tensor : tensors_of(module, layer)) {
      const auto put = [&](const std::string& stored, std::vector<float>& values) {
        if (tensor.is_rows && rows != adapter.rows.end()) {
          reorder_rows({.parts = rows->second}, row_width(store, tensor), values, false);
        }
        store.upload(stored, std::as_bytes(std::span(values)));
      };
      std::vector<float> values = floats(where, *file.tensor(tensor.name));
      if (with_initial && !tensor.initial.empty()) {
        Halves halves = halves_of(values, tensor.is_rows, store.at(tensor.stored).desc.shape[0]);
        put(tensor.initial, halves.initial);
        values = std::move(halves.trained);
      }
      put(tensor.stored, values);
    }
  }
  read_parts(store, adapter.parts, file);
}

// A shared matrix has rows in the order of PEFT's file.
void require_plain_rows(const LinearModule& module) {
  if (module.name != kHeadModule && module.rows.heads == 0) return;
  throw Failure(usage_error(cat("VeRA on ", module.name, " is not served"),
                            "leave it out of --target_modules, or train with --tuner_type lora"));
}

// What all layers take their part of: PEFT's name, and the stored name of the largest.
std::vector<std::pair<std::string, std::string>> shared_tensors(const graph::TensorStore& store,
                                                                const LoadedAdapter& adapter) {
  if (adapter.config.kind != AdapterKind::vera) return {};
  const auto size = [&](const std::string& stored) { return num_elements(store.at(stored).desc); };
  std::string a, b;
  for (const auto& [module, layer] : adapter.layers) {
    if (a.empty() || size(layer.lora_a) > size(a)) a = layer.lora_a;
    if (b.empty() || size(layer.lora_b) > size(b)) b = layer.lora_b;
  }
  return {{kVeraA, a}, {kVeraB, b}};
}

// Beside the format in the file's metadata, where it is an adapter that began as a part of the weights.
constexpr const char* kBeganAs = "tern.began_as";
constexpr const char* kAlpha = "tern.lora_alpha";  // as it was before the rank was doubled

// The configuration of what a run trains, of the file that it wrote.
AdapterConfig before_doubling(AdapterConfig config, const checkpoint::Safetensors& file) {
  const auto& metadata = file.metadata();
  const auto began_as = metadata.find(kBeganAs);
  const auto alpha = metadata.find(kAlpha);
  if (began_as == metadata.end() || alpha == metadata.end()) return config;
  config.began_as = began_as->second;
  config.rank /= 2;
  config.alpha = std::strtod(alpha->second.c_str(), nullptr);
  return config;
}

}  // namespace

std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  constexpr const char* kAbsorbed = "kv_b_proj";
  std::vector<LinearModule> out;
  for (const auto& spec : find_architecture(config.architecture)->parameters(config)) {
    if (!spec.is_linear) continue;
    const std::string name = module_of(spec);
    out.push_back({name, spec.shape[1], spec.shape[0], last_part(name) == kAbsorbed, spec.hugging_face.parts});
  }
  return out;
}

std::vector<LinearModule> adapter_modules(const ModelConfig& config) {
  auto out = linear_modules(config);
  const Architecture& architecture = *find_architecture(config.architecture);
  if (architecture.head == nullptr || config.head != ModelHead::language) return out;
  const std::string head = architecture.head(config).weight;
  for (const auto& spec : architecture.parameters(config)) {
    if (spec.name == head) out.push_back({kHeadModule, spec.shape[1], spec.shape[0]});
  }
  return out;
}

Result<std::vector<LinearModule>> select_modules(const ModelConfig& config, const std::vector<std::string>& targets) {
  const auto all = adapter_modules(config);
  const bool all_linear = std::find(targets.begin(), targets.end(), "all-linear") != targets.end();
  std::vector<std::string> names = embedding_modules(config);
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

std::vector<std::string> select_embeddings(const ModelConfig& config, const std::vector<std::string>& targets) {
  std::vector<std::string> chosen = embedding_modules(config);
  std::erase_if(chosen, [&](const std::string& module) {
    return std::none_of(targets.begin(), targets.end(), [&](const std::string& target) {
      return target == "all-embedding" || is_named(module, target);
    });
  });
  return chosen;
}

nn::LoraLayer vera_layer(const std::string& adapter, const LinearModule& module, const AdapterConfig& config) {
  nn::LoraLayer layer{config.rank, 1.0F, stored_vera_a(adapter, module.in), stored_vera_b(adapter, module.out)};
  layer.inner = cat(adapter, "/", module.name, ".", kVeraInner);
  layer.after = cat(adapter, "/", module.name, ".", kVeraAfter);
  return layer;
}

nn::LoraLayer lora_layer(const std::string& adapter, const std::string& module, const AdapterConfig& config) {
  nn::LoraLayer layer{config.rank_of(module), config.scaling_of(module), cat(adapter, "/", module, ".lora_A.weight"),
                      cat(adapter, "/", module, ".lora_B.weight")};
  if (config.use_dora) {
    layer.magnitude = cat(adapter, "/", module, ".lora_magnitude_vector");
    layer.inverse_norm = cat(adapter, "/", module, ".inverse_norm");
  }
  if (!config.began_as.empty()) {
    layer.initial_a = cat(adapter, "/", module, ".initial_A");
    layer.initial_b = cat(adapter, "/", module, ".initial_B");
  }
  return layer;
}

LoadedAdapter create_adapter(LoadedModel& model, const std::string& adapter, const AdapterConfig& config,
                             const std::vector<LinearModule>& modules) {
  LoadedAdapter made{config, {}, {}, std::make_shared<graph::TensorScope>(model.store, "adapter")};
  if (config.kind == AdapterKind::vera) {
    create_projections(*made.tensors, adapter, config, modules);
    for (const auto& module : modules) {
      require_plain_rows(module);
      const nn::LoraLayer layer = vera_layer(adapter, module, config);
      made.tensors->create(layer.inner, make_desc(TERN_F32, {layer.rank}));
      made.tensors->create(layer.after, make_desc(TERN_F32, {module.out}));
      made.layers[module.name] = layer;
    }
    return made;
  }
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
    if (!layer.initial_a.empty()) {
      made.tensors->create(layer.initial_a, make_desc(TERN_F32, {layer.rank, module.in}));
      made.tensors->create(layer.initial_b, make_desc(TERN_F32, {module.out, layer.rank}));
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
  if (!layer.after.empty()) {
    return {{peft_vector_name(module, kVeraAfter), layer.after, true},
            {peft_vector_name(module, kVeraInner), layer.inner}};
  }
  std::vector<AdapterTensor> out = {{peft_name(module, "lora_A"), layer.lora_a, false, layer.initial_a},
                                    {peft_name(module, "lora_B"), layer.lora_b, true, layer.initial_b}};
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
  for (const SavedParameter& each : adapter.saved) {
    if (each.is_trained) out.push_back(each.spec.name);
  }
  return out;
}

std::string peft_name(const std::string& module, const char* part) {
  return cat(kPeftPrefix, module, ".", part, ".weight");
}

std::string peft_vector_name(const std::string& module, const char* part) {
  return cat(kPeftPrefix, module, ".", part);
}

std::string peft_magnitude_name(const std::string& module) { return peft_vector_name(module, "lora_magnitude_vector"); }

Result<LoadedAdapter> load_adapter(LoadedModel& model, const std::string& adapter,
                                   const std::filesystem::path& directory, bool to_resume) {
  return catching([&] {
    const AdapterConfig config = read_adapter_config(directory).value();
    const auto file = checkpoint::Safetensors::open_directory(directory, "adapter_model").value();
    const std::string where = (directory / "adapter_model.safetensors").string();
    std::set<std::string> used;
    if (config.task_type == kClassification && model.config.head != ModelHead::classification) {
      throw Failure(data_error(where, "an adapter of a language model", "one of a classification, with its head",
                               "give --task_type seq_cls, or reranker where it was trained as one"));
    }
    require_own_modules(model, directory);
    SavedModules saved = saved_beside(model.config, config).value();
    drop_absent(saved, file);
    used.insert(saved.copies.begin(), saved.copies.end());
    if (saved.unties) untie_head(model);
    load_saved_modules(model, file, saved.parameters, used).value();
    if (!saved.parameters.empty()) model.saved_modules_of = directory;
    std::vector<LinearModule> modules;
    std::vector<std::string> embeddings = embedding_modules(model.config);
    for (const std::string& module : embeddings)
      used.insert(base_name(module));  // the model's own: PEFT writes it, too
    used.insert(base_name(kHeadModule));
    std::erase_if(embeddings, [&](const auto& module) { return file.tensor(embedding_name(module)) == nullptr; });
    AdapterParts parts = adapter_parts(model.config, adapter, config, embeddings).value();
    for (const auto& part : parts.parts) used.insert(part.name);
    for (const auto& module : adapter_modules(model.config)) {
      if (find_tensors(file, where, config, module, used)) modules.push_back(module);
    }
    if (config.kind == AdapterKind::vera) used.insert({kVeraA, kVeraB});
    for (const auto& tensor : file.tensors()) {
      if (!used.contains(tensor.name) && !is_needless_copy(tensor.name)) {
        throw Failure(data_error(cat(where, ": tensor ", tensor.name),
                                 cat("a LoRA pair of a linear layer of ", model.config.architecture),
                                 "one that this model has no place for", kOtherModel));
      }
    }
    LoadedAdapter loaded = create_adapter(model, adapter, to_resume ? before_doubling(config, file) : config, modules);
    if (config.kind == AdapterKind::vera) {
      const LargestLayer largest = largest_of(modules);
      fill_projections(*model.store, adapter, projections_of(config, file, largest.in, largest.out), modules);
    }
    loaded.saved = saved.parameters;
    add_parts(loaded, std::move(parts));
    read_pairs(file, where, *model.store, loaded, config.began_as.empty());
    // As PEFT does: what another program's adapter began as is found anew.
    const bool is_changed = !config.began_as.empty() && !model.store->only_counts();
    if (is_changed) make_initial_pairs(model, loaded.layers, {.began_as = config.began_as});
    file.intact().value();
    refresh_norms(model, loaded.layers);
    return loaded;
  });
}

void read_tensors(graph::TensorStore& store, const LoadedAdapter& adapter, const std::filesystem::path& directory) {
  const auto file = checkpoint::Safetensors::open_directory(directory, "adapter_model").value();
  read_pairs(file, (directory / "adapter_model.safetensors").string(), store, adapter, true);
  for (const SavedParameter& each : adapter.saved) {
    if (!each.is_trained) continue;
    const std::vector<float> values = read_saved_parameter(file, each);
    store.upload(each.spec.name, std::as_bytes(std::span(values)));
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
      const auto stored = shape_of(store.at(tensor.stored).desc);
      std::vector<std::int64_t> shape(stored.begin(), stored.end());
      if (!tensor.initial.empty()) shape.at(tensor.is_rows ? 1 : 0) *= 2;
      specs.push_back({tensor.name, "F32", shape});
      rows.push_back(tensor.is_rows && reordered != adapter.rows.end() ? reordered->second : HeadParts{});
      tensors.push_back(std::move(tensor));
    }
  }
  for (const SavedParameter& each : adapter.saved) specs.push_back({each.name, "F32", each.spec.shape});
  for (const AdapterPart& part : adapter.parts) specs.push_back({part.name, "F32", part.shape});
  const auto shared = shared_tensors(store, adapter);
  for (const auto& [name, stored] : shared) {
    const auto shape = shape_of(store.at(stored).desc);
    specs.push_back({name, "F32", {shape.begin(), shape.end()}});
  }
  checkpoint::SafetensorsWriteOptions options;
  options.stem = "adapter_model";
  if (!adapter.config.began_as.empty()) {
    options.metadata[kBeganAs] = adapter.config.began_as;
    options.metadata[kAlpha] = cat(adapter.config.alpha);
  }
  auto writer = checkpoint::SafetensorsWriter::create(directory, specs, options).value();
  for (const SavedParameter& each : adapter.saved) {
    const std::vector<float> values = saved_values(store, each.spec);
    writer.write(each.name, std::as_bytes(std::span(values))).value();
  }
  for (const AdapterPart& part : adapter.parts) {
    const std::vector<float> values = part_values(store, part);
    writer.write(part.name, std::as_bytes(std::span(values))).value();
  }
  for (const auto& [name, stored] : shared) {
    std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(stored).desc)));
    store.download(stored, std::as_writable_bytes(std::span(values)));
    writer.write(name, std::as_bytes(std::span(values))).value();
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto read = [&](const std::string& stored) {
      std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(stored).desc)));
      store.download(stored, std::as_writable_bytes(std::span(values)));
      if (rows[i].heads > 0) reorder_rows({.parts = rows[i]}, row_width(store, tensors[i]), values, true);
      return values;
    };
    std::vector<float> values = read(tensors[i].stored);
    if (!tensors[i].initial.empty()) {
      values = joined({std::move(values), read(tensors[i].initial)}, tensors[i].is_rows,
                      store.at(tensors[i].stored).desc.shape[0]);
    }
    writer.write(specs[i].name, std::as_bytes(std::span(values))).value();
  }
  writer.finish().value();
  io::write_file(directory / kConfigFile, adapter_config_json(adapter.config)).value();
}

}  // namespace tern::models
