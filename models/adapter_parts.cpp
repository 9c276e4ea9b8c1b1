#include "models/adapter_parts.h"

#include <algorithm>

#include "base/strings.h"
#include "checkpoint/checkpoint_source.h"
#include "models/adapter.h"
#include "models/adapter_file.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {


std::int64_t count_of(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

bool is_embedding(const std::string& module) { return module.ends_with(".embed_tokens"); }

// The stacks of one block's experts that transformers holds in one parameter.
struct Fused {
  std::string module;     // "model.layers.0.mlp.experts"
  std::string parameter;  // "gate_up_proj"
  std::vector<const ParameterSpec*> projections;
  [[nodiscard]] std::string name() const { return cat(module, ".", parameter); }
};

std::vector<Fused> fused_experts(std::span<const ParameterSpec> specs) {
  std::vector<Fused> out;
  const auto take = [&](const std::string& module, const char* parameter, const ParameterSpec& spec) {
    const auto known = std::find_if(out.begin(), out.end(), [&](const Fused& each) {
      return each.module == module && each.parameter == parameter;
    });
    if (known != out.end()) return known->projections.push_back(&spec);
    out.push_back({module, parameter, {&spec}});
  };
  for (const ParameterSpec& spec : specs) {
    if (spec.shape.size() != 3 || spec.is_bias) continue;
    const std::string projection = module_of(spec);
    const std::size_t dot = projection.rfind('.');
    if (!projection.substr(0, dot).ends_with(".experts")) continue;
    const bool is_down = projection.ends_with(".down_proj");
    take(projection.substr(0, dot), is_down ? "down_proj" : "gate_up_proj", spec);
  }
  return out;
}

bool names(const std::string& target, const std::string& parameter) {
  return parameter == target || parameter.ends_with("." + target);
}

// PEFT takes a weight of experts for [experts, out, in] unless the module says that rows and columns changed places, as
// gpt-oss's does, where gates and ups take turns.
void require_known_places(const Fused& fused, std::span<const ParameterSpec> specs) {
  if (!fused.projections.front()->hugging_face.is_transposed) return;
  const auto gate = std::find_if(specs.begin(), specs.end(),
                                 [&](const auto& spec) { return spec.name == fused.module + ".gate_proj.weight"; });
  if (gate != specs.end() && gate->hugging_face.row_step == 2) return;
  throw Failure(usage_error(cat("--target_parameters names ", fused.name(),
                                ", whose rows PEFT takes for columns, so an adapter would mean another thing there"),
                            "train these experts with --tuner_type full"));
}

AdapterParts experts_parts(const Fused& fused, const std::string& file_module, const std::string& adapter,
                           const AdapterConfig& config) {
  const std::int64_t rank = config.rank_of(fused.name());
  const std::int64_t experts = fused.projections.front()->shape[0], in = fused.projections.front()->shape[2];
  AdapterParts out;
  AdapterPart a, b;
  a.name = cat(kPeftPrefix, file_module, ".lora_A.weight");
  b.name = cat(kPeftPrefix, file_module, ".lora_B.weight");
  const std::string stored_a = cat(adapter, "/", fused.name(), ".lora_A");
  a.shape = {rank * experts, in};
  a.pieces = {{stored_a, {experts, rank, in}}};
  a.begins_random = true;
  b.form = AdapterPart::Form::by_expert;
  std::int64_t rows = 0;
  for (const ParameterSpec* spec : fused.projections) {
    const std::int64_t half = spec->shape[1];
    const bool takes_turns = spec->hugging_face.row_step == 2;  // a row of a gate, then one of an up
    const std::string stored_b = cat(adapter, "/", module_of(*spec), ".lora_B");
    b.pieces.push_back(
        {stored_b, {experts, half, rank}, takes_turns ? spec->hugging_face.first_row : rows, takes_turns ? 2 : 1});
    rows += half;
    nn::LoraLayer layer{rank, config.scaling_of(fused.name()), stored_a, stored_b};
    layer.in_parts = true;
    out.layers[module_of(*spec)] = layer;
  }
  b.shape = {rows, rank * experts};
  out.parts = {std::move(a), std::move(b)};
  return out;
}

AdapterParts embedding_parts(const ParameterSpec& table, const std::string& adapter, const AdapterConfig& config) {
  const std::string module = module_of(table);
  const std::int64_t rank = config.rank_of(module), vocab = table.shape[0], hidden = table.shape[1];
  nn::LoraLayer layer{rank, config.scaling_of(module), cat(adapter, "/", module, ".lora_embedding_A"),
                      cat(adapter, "/", module, ".lora_embedding_B")};
  layer.in_parts = true;
  AdapterPart a, b;
  a.name = embedding_name(module);
  a.shape = {rank, vocab};
  a.form = AdapterPart::Form::transposed;
  a.pieces = {{layer.lora_a, {vocab, rank}}};
  a.is_embedding = true;
  b.name = cat(kPeftPrefix, module, ".lora_embedding_B");
  b.shape = {hidden, rank};
  b.pieces = {{layer.lora_b, {hidden, rank}}};
  b.is_embedding = true;
  b.begins_random = true;  // an embedding's A is what begins with zeros
  return {{{module, layer}}, {std::move(a), std::move(b)}};
}

// Between a file's tensor and its pieces.
void move_by_expert(const AdapterPart& part, const AdapterPart::Piece& piece, std::span<float> file,
                    std::span<float> stored, bool to_file) {
  const std::int64_t experts = piece.shape[0], rows = piece.shape[1], rank = piece.shape[2];
  const std::int64_t width = part.shape[1];
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < rank; ++j) {
        float& in_file = file[static_cast<std::size_t>((piece.first + i * piece.step) * width + j * experts + e)];
        float& in_store = stored[static_cast<std::size_t>((e * rows + i) * rank + j)];
        (to_file ? in_file : in_store) = to_file ? in_store : in_file;
      }
    }
  }
}

std::vector<float> file_values(const AdapterPart& part, const checkpoint::Safetensors& file) {
  const auto* tensor = file.tensor(part.name);
  if (tensor == nullptr || tensor->shape != part.shape || !tensor->dtype->dtype) {
    throw Failure(data_error(cat(file.files().front()->path(), ": tensor ", part.name),
                             cat("floats ", shape_text(part.shape)),
                             tensor == nullptr ? "none" : "another shape or dtype",
                             "the adapter is of another model: name the one it was trained on"));
  }
  return floats_of(*tensor);
}

std::vector<float> piece_of(const AdapterPart& part, const AdapterPart::Piece& piece, std::vector<float>& values) {
  if (part.form == AdapterPart::Form::plain) return values;
  std::vector<float> stored(static_cast<std::size_t>(count_of(piece.shape)));
  if (part.form == AdapterPart::Form::transposed) {
    transpose(values, part.shape[0], part.shape[1], stored);
  } else {
    move_by_expert(part, piece, values, stored, false);
  }
  return stored;
}

}  // namespace

std::string embedding_name(const std::string& module) { return cat(kPeftPrefix, module, ".lora_embedding_A"); }

std::vector<std::string> embedding_modules(const ModelConfig& config) {
  std::vector<std::string> out;
  for (const ParameterSpec& spec : find_architecture(config.architecture)->parameters(config)) {
    if (is_embedding(module_of(spec))) out.push_back(module_of(spec));
  }
  return out;
}

Result<AdapterParts> adapter_parts(const ModelConfig& model, const std::string& adapter, const AdapterConfig& config,
                                   const std::vector<std::string>& embeddings) {
  return catching([&] {
    if (config.use_dora && !(embeddings.empty() && config.target_parameters.empty())) {
      throw Failure(usage_error("DoRA is for linear layers: embeddings and experts' weights can't have it here",
                                "drop --use_dora, or leave these out of --target_modules and --target_parameters"));
    }
    AdapterParts out;
    const auto add = [&](AdapterParts more) {
      out.layers.merge(more.layers);
      std::move(more.parts.begin(), more.parts.end(), std::back_inserter(out.parts));
    };
    const auto specs = find_architecture(model.architecture)->parameters(model);
    for (const ParameterSpec& spec : specs) {
      const std::string module = module_of(spec);
      if (std::find(embeddings.begin(), embeddings.end(), module) != embeddings.end())
        add(embedding_parts(spec, adapter, config));
    }
    if (config.target_parameters.empty()) return out;
    const auto fused = fused_experts(specs);
    const auto is_chosen = [&](const std::string& name) {
      return std::any_of(config.target_parameters.begin(), config.target_parameters.end(),
                         [&](const std::string& target) { return names(target, name); });
    };
    for (const std::string& target : config.target_parameters) {
      if (std::any_of(fused.begin(), fused.end(), [&](const Fused& each) { return names(target, each.name()); }))
        continue;
      throw Failure(usage_error(cat("--target_parameters ", target, " names no fused weight of experts of this model"),
                                fused.empty() ? "drop the flag: the model has no experts"
                                              : "give mlp.experts.gate_up_proj, mlp.experts.down_proj, or both"));
    }
    if (config.dropout > 0) {
      throw Failure(usage_error("an adapter on experts' weights takes no dropout, as PEFT's takes none",
                                "give --lora_dropout 0"));
    }
    for (const Fused& each : fused) {
      if (!is_chosen(each.name())) continue;
      require_known_places(each, specs);
      // PEFT wraps the module once for each weight, the later one around the earlier.
      const bool is_inner = each.parameter == "gate_up_proj" && is_chosen(each.module + ".down_proj");
      add(experts_parts(each, is_inner ? each.module + ".base_layer" : each.module, adapter, config));
    }
    return out;
  });
}

void create_parts(graph::TensorScope& tensors, const AdapterParts& parts) {
  for (const AdapterPart& part : parts.parts) {
    for (const auto& piece : part.pieces) tensors.create(piece.stored, make_desc(TERN_F32, piece.shape));
  }
}

void read_parts(graph::TensorStore& store, const std::vector<AdapterPart>& parts, const checkpoint::Safetensors& file) {
  for (const AdapterPart& part : parts) {
    std::vector<float> values = file_values(part, file);
    for (const auto& piece : part.pieces) {
      const std::vector<float> stored = piece_of(part, piece, values);
      store.upload(piece.stored, std::as_bytes(std::span(stored)));
    }
  }
}

std::vector<float> part_values(const graph::TensorStore& store, const AdapterPart& part) {
  std::vector<float> values(static_cast<std::size_t>(count_of(part.shape)));
  for (const auto& piece : part.pieces) {
    std::vector<float> stored(static_cast<std::size_t>(count_of(piece.shape)));
    store.download(piece.stored, std::as_writable_bytes(std::span(stored)));
    switch (part.form) {
      case AdapterPart::Form::plain:
        values = std::move(stored);
        break;
      case AdapterPart::Form::transposed:
        transpose(stored, part.shape[1], part.shape[0], values);
        break;
      case AdapterPart::Form::by_expert:
        move_by_expert(part, piece, values, stored, true);
        break;
    }
  }
  return values;
}

PartDeltas::PartDeltas(const ModelConfig& config, const AdapterConfig& adapter, const checkpoint::Safetensors& file) {
  std::vector<std::string> embeddings;
  for (const std::string& module : embedding_modules(config)) {
    if (file.tensor(embedding_name(module)) != nullptr) embeddings.push_back(module);
  }
  const AdapterParts parts = adapter_parts(config, "", adapter, embeddings).value();
  num_tensors_ = parts.parts.size();
  std::map<std::string, std::vector<float>> stored;
  for (const AdapterPart& part : parts.parts) {
    std::vector<float> values = file_values(part, file);
    for (const auto& piece : part.pieces) stored[piece.stored] = piece_of(part, piece, values);
  }
  for (const ParameterSpec& spec : find_architecture(config.architecture)->parameters(config)) {
    const auto layer = parts.layers.find(module_of(spec));
    if (layer == parts.layers.end() || spec.is_bias) continue;
    const std::int64_t rank = layer->second.rank;
    Delta delta{rank, layer->second.scaling, spec.shape[spec.shape.size() - 2], {}, {}};
    const std::vector<float>& a = stored.at(layer->second.lora_a);
    const std::vector<float>& b = stored.at(layer->second.lora_b);
    if (is_embedding(module_of(spec))) {  // a row of W is a row of A^T times B^T
      delta.b = a;
      delta.a.resize(b.size());
      transpose(b, spec.shape[1], rank, delta.a);
    } else {
      delta.a = a;
      delta.b = b;
    }
    deltas_.emplace(spec.name, std::move(delta));
  }
}

void PartDeltas::add(const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> rows) const {
  const auto found = deltas_.find(spec.name);
  if (found == deltas_.end()) return;
  const Delta& delta = found->second;
  const auto columns = static_cast<std::int64_t>(rows.size()) / count;
  std::vector<float> sum(static_cast<std::size_t>(columns));
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t matrix = (first + row) / delta.rows;
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::int64_t r = 0; r < delta.rank; ++r) {
      const float factor = delta.b[static_cast<std::size_t>((first + row) * delta.rank + r)];
      const float* from = delta.a.data() + (matrix * delta.rank + r) * columns;
      for (std::int64_t i = 0; i < columns; ++i) sum[static_cast<std::size_t>(i)] += factor * from[i];
    }
    float* target = rows.data() + row * columns;
    for (std::int64_t i = 0; i < columns; ++i) target[i] += delta.scaling * sum[static_cast<std::size_t>(i)];
  }
}

}  // namespace tern::models
