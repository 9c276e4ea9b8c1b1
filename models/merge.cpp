#include "models/merge.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "models/adapter_file.h"
#include "models/initial_pairs.h"
#include "models/parameter_reader.h"
#include "models/saved_modules.h"
#include "models/vera.h"
#include "models/write_weights.h"

namespace tern::models {
namespace {

// One adapter's tensors, read on the host.
struct HostAdapter {
  AdapterConfig config;
  checkpoint::Safetensors file;
  std::string where;
  SavedModules saved;
  PartDeltas parts;
  Projections projections = {};  // of VeRA
};

// `shape`: [rows, columns], or [rows] of a vector.
std::vector<float> read_f32(const HostAdapter& adapter, const checkpoint::SafetensorsTensor& tensor,
                            std::vector<std::int64_t> shape) {
  if (tensor.shape != shape || !tensor.dtype->dtype) {
    throw Failure(
        data_error(cat(adapter.where, ": tensor ", tensor.name),
                   shape.size() == 1 ? cat(shape[0], " floats") : cat("a float matrix of ", shape[0], " x ", shape[1]),
                   "another shape or dtype", "the adapter is of another model: name the one it was trained on"));
  }
  return floats_of(tensor);
}

// What an adapter has for a linear layer.
struct Pair {
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
  std::int64_t rank = 0;
  float scaling = 0;
  std::vector<float> magnitude = {};  // [out] of DoRA, or empty
};

// The weight is to be without what the pair began as: a pair of twice the rank takes that off.
void take_off_initial(const HostAdapter& adapter, ParameterReader& reader, const ParameterSpec& weight, Pair& pair) {
  const std::vector<float> values = reader.read(weight);
  const LowRankPair initial =
      initial_pair({.began_as = adapter.config.began_as}, module_of(weight), {values, weight.shape[0], weight.shape[1]},
                   pair.rank, static_cast<double>(pair.scaling));
  pair.a.insert(pair.a.end(), initial.a.begin(), initial.a.end());
  std::vector<float> both;
  for (std::int64_t row = 0; row < weight.shape[0]; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * pair.rank);
    both.insert(both.end(), pair.b.begin() + begin, pair.b.begin() + begin + pair.rank);
    for (std::int64_t r = 0; r < pair.rank; ++r) both.push_back(-initial.b[static_cast<std::size_t>(begin + r)]);
  }
  pair.b = std::move(both);
  pair.rank *= 2;
}

// As a pair without factors.
std::optional<Pair> read_vera_pair(const HostAdapter& adapter, const ParameterSpec& weight,
                                   std::set<std::string>& used) {
  const std::string module = module_of(weight);
  const auto* inner = adapter.file.tensor(peft_vector_name(module, kVeraInner));
  const auto* after = adapter.file.tensor(peft_vector_name(module, kVeraAfter));
  if (inner == nullptr || after == nullptr || !adapter.config.selects(module)) return std::nullopt;
  const std::int64_t rank = adapter.config.rank, in = weight.shape[1];
  Pair pair{adapter.projections.a_of(in), adapter.projections.b_of(weight.shape[0]), rank, 1.0F};
  const std::vector<float> of_rank = read_f32(adapter, *inner, {rank});
  const std::vector<float> of_rows = read_f32(adapter, *after, {weight.shape[0]});
  for (std::size_t i = 0; i < pair.a.size(); ++i) pair.a[i] *= of_rank[i / static_cast<std::size_t>(in)];
  for (std::size_t i = 0; i < pair.b.size(); ++i) pair.b[i] *= of_rows[i / static_cast<std::size_t>(rank)];
  used.insert({inner->name, after->name});
  return pair;
}

// As the file has it; absent where the adapter lacks this layer. Puts the tensors' names into `used`.
std::optional<Pair> read_pair(const HostAdapter& adapter, const ParameterSpec& weight, std::set<std::string>& used) {
  if (adapter.config.kind == AdapterKind::vera) return read_vera_pair(adapter, weight, used);
  const std::string module = module_of(weight);
  const auto* a = adapter.file.tensor(peft_name(module, "lora_A"));
  const auto* b = adapter.file.tensor(peft_name(module, "lora_B"));
  const auto* magnitude = adapter.file.tensor(peft_magnitude_name(module));
  if (a == nullptr || b == nullptr || (magnitude != nullptr) != adapter.config.use_dora) return std::nullopt;
  if (!adapter.config.selects(module)) return std::nullopt;
  const std::int64_t rank = adapter.config.rank_of(module);
  Pair pair{read_f32(adapter, *a, {rank, weight.shape[1]}), read_f32(adapter, *b, {weight.shape[0], rank}), rank,
            adapter.config.scaling_of(module)};
  if (magnitude != nullptr) pair.magnitude = read_f32(adapter, *magnitude, {weight.shape[0]});
  if (weight.hugging_face.parts.heads > 0) {
    reorder_rows(weight.hugging_face, rank, pair.b, false);
    if (magnitude != nullptr) reorder_rows(weight.hugging_face, 1, pair.magnitude, false);
  }
  for (const auto* tensor : {a, b, magnitude}) {
    if (tensor != nullptr) used.insert(tensor->name);
  }
  return pair;
}

// rows [count, in] += scaling * b[first ..] a; with a magnitude, times it over the norms of base's rows so changed.
void add_rows(const Pair& pair, std::int64_t first, std::int64_t count, std::span<const float> base,
              std::span<float> rows) {
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
    if (pair.magnitude.empty()) continue;
    double squares = 0;
    for (std::size_t i = 0; i < in; ++i) {
      const double changed =
          base[static_cast<std::size_t>(row) * in + i] + static_cast<double>(pair.scaling) * delta[i];
      squares += changed * changed;
    }
    const auto scale = static_cast<float>(pair.magnitude[static_cast<std::size_t>(first + row)] / std::sqrt(squares));
    for (std::size_t i = 0; i < in; ++i) target[i] *= scale;
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

// `pairs`: tensors of linear layers that were used.
void require_all_used(const HostAdapter& adapter, std::size_t pairs) {
  const std::size_t fit =
      pairs + adapter.saved.parameters.size() + adapter.saved.copies.size() + adapter.parts.num_tensors();
  const auto is_saved = [&](const std::string& name) {
    const auto& saved = adapter.saved.parameters;
    return std::any_of(saved.begin(), saved.end(), [&](const SavedParameter& each) { return each.name == name; });
  };
  const auto copies =
      std::count_if(adapter.file.tensors().begin(), adapter.file.tensors().end(), [&](const auto& tensor) {
        // The model's own, beside an adapter on its embedding.
        const bool is_own = tensor.name.ends_with(".base_layer.weight") && !is_saved(tensor.name);
        return is_own || is_needless_copy(tensor.name);
      });
  if (adapter.file.tensors().size() == fit + static_cast<std::size_t>(copies)) return;
  throw Failure(data_error(adapter.where, "only LoRA pairs of this model's linear layers",
                           cat(adapter.file.tensors().size(), " tensors, of which ", fit, " fit"),
                           "the adapter is of another model: name the one it was trained on"));
}

void read_projections(HostAdapter& adapter, const ModelConfig& config) {
  if (adapter.config.kind != AdapterKind::vera) return;
  auto modules = linear_modules(config);
  std::erase_if(modules, [&](const LinearModule& module) { return !adapter.config.selects(module.name); });
  const LargestLayer largest = largest_of(modules);
  adapter.projections = projections_of(adapter.config, adapter.file, largest.in, largest.out);
}

// What the adapter's file has in the place of a parameter. A head that gets a matrix of its own, `own` being the
// embedding, takes what is not trained of that.
const SavedParameter* saved_for(const HostAdapter& adapter, const ParameterSpec& spec, const ParameterSpec& own) {
  for (const SavedParameter& each : adapter.saved.parameters) {
    if (each.spec.name == spec.name || (each.spec.name == own.name && !each.is_trained)) return &each;
  }
  return nullptr;
}

bool sits_on(const HostAdapter& adapter, const ParameterSpec& spec) {
  const std::string module = module_of(spec);
  if (!spec.is_linear && module != kHeadModule) return false;
  if (adapter.config.kind == AdapterKind::vera) {
    return spec.is_linear && adapter.file.tensor(peft_vector_name(module, kVeraAfter)) != nullptr;
  }
  return adapter.file.tensor(peft_name(module, "lora_A")) != nullptr &&
         adapter.file.tensor(peft_name(module, "lora_B")) != nullptr;
}

}  // namespace

ModelConfig merged_config(const ModelConfig& config, const std::vector<std::filesystem::path>& adapters) {
  const bool unties = std::any_of(adapters.begin(), adapters.end(), [&](const auto& path) {
    if (saved_modules(config, read_adapter_config(path).value().modules_to_save).value().unties) return true;
    const auto file = checkpoint::Safetensors::open_directory(path, "adapter_model").value();
    return std::any_of(file.tensors().begin(), file.tensors().end(), [](const auto& tensor) {
      return tensor.name.ends_with(".lora_embedding_A") || tensor.name == peft_name(kHeadModule, "lora_A");
    });
  });
  return unties ? untied(config) : config;
}

struct MergedWeights::State {
  // What an adapter makes of a parameter.
  struct Change {
    std::vector<Pair> pairs;
    std::vector<float> whole;  // in the place of the weight; empty: the weight is the model's
  };
  static constexpr std::size_t kKept = 8;  // parameters whose changes are held: those of a tensor or two

  State(const checkpoint::CheckpointSource& source, const ModelConfig& config, ModelConfig merged)
      // Of the file: an adapter may bring a head that stands in the place of the language model's.
      : own_specs(config.label_head_is_new ? language_parameters_of(config) : parameters_of(config)),
        config(std::move(merged)),
        specs(parameters_of(this->config)),
        head(own_specs, config, this->config),
        reader(source) {}

  std::shared_ptr<const Change> change_of(const ParameterSpec& spec) {
    const std::lock_guard lock(mutex);
    for (const auto& [of, change] : held) {
      if (of == &spec) return change;
    }
    auto change = std::make_shared<Change>();
    std::set<std::string> used;
    for (const HostAdapter& adapter : adapters) {
      if (const auto* saved = saved_for(adapter, spec, head.of(spec))) {
        change->whole = read_saved_parameter(adapter.file, *saved);
      }
      if (!sits_on(adapter, spec)) continue;
      auto pair = read_pair(adapter, spec, used);
      if (!pair) continue;
      if (!adapter.config.began_as.empty()) take_off_initial(adapter, reader, spec, *pair);
      change->pairs.push_back(*std::move(pair));
    }
    if (held.size() == kKept) held.pop_front();
    held.emplace_back(&spec, change);
    return change;
  }

  const std::vector<ParameterSpec> own_specs;
  const ModelConfig config;  // of the merged model
  const std::vector<ParameterSpec> specs;
  const SourceOfHead head;
  ParameterReader reader;
  std::vector<HostAdapter> adapters;
  std::set<const ParameterSpec*> changed;
  std::mutex mutex;  // of what follows: the changes that were asked for last
  std::deque<std::pair<const ParameterSpec*, std::shared_ptr<const Change>>> held;
};

MergedWeights::MergedWeights(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                             const std::vector<std::filesystem::path>& adapters)
    : state_(std::make_unique<State>(source, config, merged_config(config, adapters))) {
  state_->reader.require_all(state_->own_specs, config);
  for (const auto& path : adapters) {
    AdapterConfig its = read_adapter_config(path).value();
    SavedModules saved = saved_beside(config, its).value();
    auto file = checkpoint::Safetensors::open_directory(path, "adapter_model").value();
    drop_absent(saved, file);
    PartDeltas parts(config, its, file);
    state_->adapters.push_back({std::move(its), std::move(file), (path / "adapter_model.safetensors").string(),
                                std::move(saved), std::move(parts)});
    read_projections(state_->adapters.back(), config);
    const HostAdapter& adapter = state_->adapters.back();
    std::set<std::string> used;  // tensors
    for (const char* shared : {kVeraA, kVeraB}) {
      if (adapter.config.kind == AdapterKind::vera && adapter.file.tensor(shared) != nullptr) used.insert(shared);
    }
    for (const ParameterSpec& spec : state_->specs) {
      const bool is_part = adapter.parts.num_tensors() > 0 && spec.shape.size() > (spec.is_linear ? 2U : 1U);
      const bool is_saved = saved_for(adapter, spec, state_->head.of(spec)) != nullptr;
      if (is_saved || is_part) state_->changed.insert(&spec);
      if (!sits_on(adapter, spec)) continue;
      (void)read_pair(adapter, spec, used);  // of the right shape, before anything is written
      state_->changed.insert(&spec);
    }
    require_all_used(adapter, used.size());
  }
}

MergedWeights::~MergedWeights() = default;

const ModelConfig& MergedWeights::config() const { return state_->config; }
const std::vector<ParameterSpec>& MergedWeights::specs() const { return state_->specs; }
bool MergedWeights::changes(const ParameterSpec& spec) const { return state_->changed.contains(&spec); }

void MergedWeights::read_rows(const ParameterSpec& spec, std::int64_t first, std::int64_t count,
                              const ParameterSource& as, std::span<float> values) {
  const ParameterSpec& own = state_->head.of(spec);
  if (!changes(spec)) return state_->reader.read_rows(own, first, count, as, values);
  const auto columns = static_cast<std::int64_t>(values.size()) / count;
  const auto change = state_->change_of(spec);
  if (!change->whole.empty()) {
    std::copy_n(change->whole.begin() + first * columns, count * columns, values.begin());
  } else {
    state_->reader.read_rows(own, first, count, {}, values);
  }
  for (const HostAdapter& adapter : state_->adapters) adapter.parts.add(spec, first, count, values);
  const std::vector<float> base(values.begin(), values.end());  // norms are of it, whatever was added before
  for (const Pair& pair : change->pairs) add_rows(pair, first, count, base, values);
  to_file(as, columns, values);
}

Status merge_weights(const checkpoint::CheckpointSource& source, const ModelConfig& config, const MergeOptions& options,
                     const std::filesystem::path& directory) {
  return catching([&] {
    MergedWeights merged(source, config, options.adapters);
    WriteWeightsOptions write;
    write.dtype = options.dtype;
    write.max_shard_size = options.max_shard_size;
    write.progress = options.progress;
    write.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
      merged.read_rows(spec, first, count, spec.hugging_face, values);
    };
    write_weights(merged.specs(), directory, write);
    source.intact().value();
    return Unit{};
  });
}

}  // namespace tern::models
