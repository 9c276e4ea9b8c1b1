#include "models/merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "models/parameter_reader.h"
#include "models/saved_modules.h"
#include "models/write_weights.h"

namespace tern::models {
namespace {

// One adapter's tensors, read on the host.
struct HostAdapter {
  AdapterConfig config;
  checkpoint::Safetensors file;
  std::string where;
  SavedModules saved;
};

std::vector<float> read_f32(const HostAdapter& adapter, const checkpoint::SafetensorsTensor& tensor,
                            std::vector<std::int64_t> shape) {
  if (tensor.shape != shape || !tensor.dtype->dtype) {
    throw Failure(data_error(cat(adapter.where, ": tensor ", tensor.name),
                             cat("a float matrix of ", shape[0], " x ", shape[1]), "another shape or dtype",
                             "the adapter is of another model: name the one it was trained on"));
  }
  std::vector<float> values(static_cast<std::size_t>(shape[0] * shape[1]));
  checkpoint::to_f32(*tensor.dtype->dtype, tensor.bytes, values).value();
  return values;
}

// The pair of matrices that an adapter has for a linear layer.
struct Pair {
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
  std::int64_t rank = 0;
  float scaling = 0;
};

// Absent where the adapter lacks this layer.
std::optional<Pair> read_pair(const HostAdapter& adapter, const ParameterSpec& weight) {
  const std::string module = module_of(weight);
  const auto* a = adapter.file.tensor(peft_name(module, "lora_A"));
  const auto* b = adapter.file.tensor(peft_name(module, "lora_B"));
  if (a == nullptr || b == nullptr) return std::nullopt;
  const std::int64_t rank = adapter.config.rank;
  Pair pair{read_f32(adapter, *a, {rank, weight.shape[1]}), read_f32(adapter, *b, {weight.shape[0], rank}), rank,
            adapter.config.scaling()};
  if (weight.hugging_face.parts.heads > 0) reorder_rows(weight.hugging_face, rank, pair.b, false);
  return pair;
}

// rows [count, in] += scaling * b[first ..] a.
void add_rows(const Pair& pair, std::int64_t first, std::int64_t count, std::span<float> rows) {
  const std::size_t in = rows.size() / static_cast<std::size_t>(count);
  std::vector<float> delta(in);
  for (std::int64_t row = 0; row < count; ++row) {
    std::fill(delta.begin(), delta.end(), 0.0F);
    for (std::int64_t r = 0; r < pair.rank; ++r) {
      const float factor = pair.b[static_cast<std::size_t>((first + row) * pair.rank + r)];
      const float* from = pair.a.data() + static_cast<std::size_t>(r) * in;
      for (std::size_t i = 0; i < in; ++i) delta[i] += factor * from[i];
    }
    float* target = rows.data() + static_cast<std::size_t>(row) * in;
    for (std::size_t i = 0; i < in; ++i) target[i] += pair.scaling * delta[i];
  }
}

// Of a model whose head gets a weight of its own, where that is read from.
class SourceOfHead {
 public:
  SourceOfHead(const std::vector<ParameterSpec>& own_specs, const ModelConfig& own, const ModelConfig& merged) {
    if (own.tie_word_embeddings == merged.tie_word_embeddings) return;
    const Architecture& architecture = *find_architecture(own.architecture);
    head_ = architecture.head(merged).weight;
    const std::string embedding = architecture.head(own).weight;
    embedding_ = &*std::find_if(own_specs.begin(), own_specs.end(),
                                [&](const ParameterSpec& spec) { return spec.name == embedding; });
  }
  [[nodiscard]] const ParameterSpec& of(const ParameterSpec& spec) const {
    return embedding_ != nullptr && spec.name == head_ ? *embedding_ : spec;
  }

 private:
  std::string head_;
  const ParameterSpec* embedding_ = nullptr;
};

void require_all_used(const HostAdapter& adapter, std::size_t modules_used) {
  const std::size_t fit = 2 * modules_used + adapter.saved.parameters.size();
  if (adapter.file.tensors().size() == fit) return;
  throw Failure(data_error(adapter.where, "only LoRA pairs of this model's linear layers",
                           cat(adapter.file.tensors().size(), " tensors, of which ", fit, " fit"),
                           "the adapter is of another model: name the one it was trained on"));
}

}  // namespace

ModelConfig merged_config(const ModelConfig& config, const std::vector<std::filesystem::path>& adapters) {
  const bool unties = std::any_of(adapters.begin(), adapters.end(), [&](const auto& path) {
    return saved_modules(config, read_adapter_config(path).value().modules_to_save).value().unties;
  });
  return unties ? untied(config) : config;
}

Status merge_weights(const checkpoint::CheckpointSource& source, const ModelConfig& config, const MergeOptions& options,
                     const std::filesystem::path& directory) {
  return catching([&] {
    // Of the file: an adapter may bring a head that stands in the place of the language model's.
    const auto own_specs = config.label_head_is_new ? find_architecture(config.architecture)->parameters(config)
                                                    : parameters_of(config);
    const ModelConfig merged = merged_config(config, options.adapters);
    const auto specs = parameters_of(merged);
    const SourceOfHead head(own_specs, config, merged);
    std::vector<HostAdapter> adapters;
    for (const auto& path : options.adapters) {
      AdapterConfig its = read_adapter_config(path).value();
      SavedModules saved = saved_modules(config, its.modules_to_save).value();
      adapters.push_back({std::move(its), checkpoint::Safetensors::open_directory(path, "adapter_model").value(),
                          (path / "adapter_model.safetensors").string(), std::move(saved)});
    }
    ParameterReader reader(source);
    reader.require_all(own_specs, config);
    std::vector<std::set<std::string>> used(adapters.size());
    std::map<const ParameterSpec*, std::vector<Pair>> pairs;   // of the tensor being written
    std::map<const ParameterSpec*, std::vector<float>> saved;  // and of what stands in its place
    WriteWeightsOptions write;
    write.dtype = options.dtype;
    write.max_shard_size = options.max_shard_size;
    write.progress = options.progress;
    write.begin = [&](const std::vector<const ParameterSpec*>& next) {
      pairs.clear();
      saved.clear();
      for (const ParameterSpec* spec : next) {
        for (const HostAdapter& adapter : adapters) {
          if (adapter.saved.has(spec->name)) saved[spec] = read_saved_parameter(adapter.file, *spec);
        }
        for (std::size_t i = 0; spec->is_linear && i < adapters.size(); ++i) {
          auto pair = read_pair(adapters[i], *spec);
          if (!pair) continue;
          used[i].insert(spec->name);
          pairs[spec].push_back(*std::move(pair));
        }
      }
    };
    write.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
      if (const auto whole = saved.find(&spec); whole != saved.end()) {
        const auto columns = static_cast<std::int64_t>(values.size()) / count;
        std::copy_n(whole->second.begin() + first * columns, count * columns, values.begin());
        to_file(spec.hugging_face, columns, values);
      } else {
        reader.read_rows(head.of(spec), first, count, spec.hugging_face, values);
      }
      const auto found = pairs.find(&spec);
      if (found == pairs.end()) return;
      for (const Pair& pair : found->second) add_rows(pair, first, count, values);
    };
    write_weights(specs, directory, write);
    for (std::size_t i = 0; i < adapters.size(); ++i) require_all_used(adapters[i], used[i].size());
    source.intact().value();
    return Unit{};
  });
}

}  // namespace tern::models
