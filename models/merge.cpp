#include "models/merge.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "models/write_weights.h"

namespace tern::models {
namespace {

// One adapter's tensors, read on the host.
struct HostAdapter {
  AdapterConfig config;
  checkpoint::Safetensors file;
  std::string where;
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

void require_all_used(const HostAdapter& adapter, std::size_t modules_used) {
  if (adapter.file.tensors().size() == 2 * modules_used) return;
  throw Failure(data_error(adapter.where, "only LoRA pairs of this model's linear layers",
                           cat(adapter.file.tensors().size(), " tensors, of which ", 2 * modules_used, " fit"),
                           "the adapter is of another model: name the one it was trained on"));
}

bool sits_on(const HostAdapter& adapter, const ParameterSpec& spec) {
  if (!spec.is_linear) return false;
  const std::string module = module_of(spec);
  return adapter.file.tensor(peft_name(module, "lora_A")) != nullptr &&
         adapter.file.tensor(peft_name(module, "lora_B")) != nullptr;
}

}  // namespace

struct MergedWeights::State {
  using Pairs = std::vector<Pair>;
  static constexpr std::size_t kKept = 8;  // parameters whose pairs are held: those of a tensor or two

  State(const checkpoint::CheckpointSource& of, std::vector<ParameterSpec> parameters)
      : source(of), specs(std::move(parameters)), reader(of) {}

  std::shared_ptr<const Pairs> pairs_of(const ParameterSpec& spec) {
    const std::lock_guard lock(mutex);
    for (const auto& [of, pairs] : held) {
      if (of == &spec) return pairs;
    }
    auto pairs = std::make_shared<Pairs>();
    for (const HostAdapter& adapter : adapters) {
      if (auto pair = read_pair(adapter, spec)) pairs->push_back(*std::move(pair));
    }
    if (held.size() == kKept) held.pop_front();
    held.emplace_back(&spec, pairs);
    return pairs;
  }

  const checkpoint::CheckpointSource& source;
  const std::vector<ParameterSpec> specs;
  ParameterReader reader;
  std::vector<HostAdapter> adapters;
  std::set<const ParameterSpec*> changed;
  std::mutex mutex;  // of what follows: the pairs that were asked for last
  std::deque<std::pair<const ParameterSpec*, std::shared_ptr<const Pairs>>> held;
};

MergedWeights::MergedWeights(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                             std::span<const std::filesystem::path> adapters)
    : state_(std::make_unique<State>(source, find_architecture(config.architecture)->parameters(config))) {
  state_->reader.require_all(state_->specs, config);
  for (const auto& path : adapters) {
    state_->adapters.push_back({read_adapter_config(path).value(),
                                checkpoint::Safetensors::open_directory(path, "adapter_model").value(),
                                (path / "adapter_model.safetensors").string()});
    const HostAdapter& adapter = state_->adapters.back();
    std::size_t used = 0;
    for (const ParameterSpec& spec : state_->specs) {
      if (!sits_on(adapter, spec)) continue;
      (void)read_pair(adapter, spec);  // of the right shape, before anything is written
      state_->changed.insert(&spec);
      ++used;
    }
    require_all_used(adapter, used);
  }
}

MergedWeights::~MergedWeights() = default;

const std::vector<ParameterSpec>& MergedWeights::specs() const { return state_->specs; }
bool MergedWeights::changes(const ParameterSpec& spec) const { return state_->changed.contains(&spec); }
ParameterReader& MergedWeights::reader() { return state_->reader; }

void MergedWeights::read_rows(const ParameterSpec& spec, std::int64_t first, std::int64_t count,
                              const ParameterSource& as, std::span<float> values) {
  if (!changes(spec)) return state_->reader.read_rows(spec, first, count, as, values);
  state_->reader.read_rows(spec, first, count, {}, values);
  const auto pairs = state_->pairs_of(spec);
  for (const Pair& pair : *pairs) add_rows(pair, first, count, values);
  to_file(as, static_cast<std::int64_t>(values.size()) / count, values);
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
