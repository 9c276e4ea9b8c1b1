#include "models/gguf_names.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/strings.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "models/rope.h"

namespace tern::models {
namespace {

// What the conversion's functions keep.
struct Conversion {
  Conversion(const checkpoint::CheckpointSource& source, std::vector<ParameterSpec> of, Form form)
      : own(std::move(of)),
        specs(own),
        reader(source),
        target(
            [this, form](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
              reader.read_rows(spec, first, count, source_in(spec, form), values);
            }) {}
  Conversion(const checkpoint::CheckpointSource& source, const std::shared_ptr<MergedWeights>& weights, Form form)
      : merged(weights),
        specs(weights->specs()),
        reader(source),
        target(
            [this, form](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
              merged->read_rows(spec, first, count, source_in(spec, form), values);
            }) {}
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  [[nodiscard]] bool changes(const ParameterSpec& spec) const { return merged != nullptr && merged->changes(spec); }

  const std::vector<ParameterSpec> own;
  const std::shared_ptr<MergedWeights> merged;  // or none: the source's numbers
  const std::vector<ParameterSpec>& specs;      // own, or those of `merged`
  ParameterReader reader;
  StoredTensorReader target;
};

// The rows of the source's tensors that a tensor of the target is, by way of the parameters that it is made of; no rows
// where numbers or columns change.
checkpoint::TargetTensor target_tensor(const std::shared_ptr<Conversion>& conversion, const StoredTensor& tensor,
                                       Form form) {
  checkpoint::TargetTensor out;
  out.name = tensor.name;
  out.shape = tensor.shape;
  out.values = [conversion, tensor](std::int64_t first, std::int64_t count, std::span<float> values) {
    conversion->target.read_rows(tensor, first, count, values);
  };
  bool moves_only = !tensor.is_transposed;
  const auto append = [&](const std::string& name, std::int64_t first, std::int64_t count) {
    auto at = std::find(out.sources.begin(), out.sources.end(), name);
    if (at == out.sources.end()) at = out.sources.insert(at, name);
    const auto source = static_cast<std::size_t>(at - out.sources.begin());
    const bool goes_on =
        !out.rows.empty() && out.rows.back().source == source && out.rows.back().first + out.rows.back().count == first;
    if (!goes_on) return out.rows.push_back({source, first, count});
    out.rows.back().count += count;
  };
  for (std::int64_t matrix = 0; matrix < tensor.sizes.matrices; ++matrix) {
    for (const StoredTensor::Rows& some : tensor.rows) {
      const ParameterSource& source = conversion->reader.source_of(*some.spec);
      const ParameterSource& target = source_in(*some.spec, form);
      moves_only = moves_only && !conversion->changes(*some.spec) && !transposes_any(source) &&
                   same_numbers(source, target) && source.vector_columns == target.vector_columns;
      const auto stored = conversion->reader.find(*some.spec);
      const std::int64_t first = tensor.parameter_row(matrix, some.first);
      std::int64_t at = 0;  // row of the parameter at which the run begins
      for (const RowRun& run : row_runs(*some.spec, source)) {
        const std::int64_t begin = std::max(at, first);
        const std::int64_t end = std::min(at + run.count, first + some.count);
        if (begin < end) append(stored[run.tensor]->name, run.first + begin - at, end - begin);
        at += run.count;
      }
    }
  }
  if (!moves_only) out.rows.clear();
  return out;
}

std::vector<checkpoint::TargetTensor> target_tensors(const std::shared_ptr<Conversion>& conversion, Form form) {
  std::vector<checkpoint::TargetTensor> tensors;
  for (const StoredTensor& tensor : stored_tensors(conversion->specs, form))
    tensors.push_back(target_tensor(conversion, tensor, form));
  return tensors;
}

void set_tensors(const checkpoint::CheckpointSource& source, const ModelConfig& config, Form form,
                 const std::shared_ptr<MergedWeights>& merged, checkpoint::ConvertOptions& options) {
  const auto conversion =
      merged ? std::make_shared<Conversion>(source, merged, form)
             : std::make_shared<Conversion>(source, find_architecture(config.architecture)->parameters(config), form);
  conversion->reader.require_all(conversion->specs, config);
  options.tensors = target_tensors(conversion, form);
}

std::string size_label(std::int64_t parameters) {
  const double millions = static_cast<double>(parameters) / 1e6;
  return millions < 1000 ? cat(std::llround(millions), "M") : cat(fixed(millions / 1000, 1), "B");
}

}  // namespace

Result<std::vector<checkpoint::TargetTensor>> tensors_in_form(const checkpoint::CheckpointSource& source,
                                                              std::vector<ParameterSpec> specs, Form form) {
  return catching([&] {
    const auto conversion = std::make_shared<Conversion>(source, std::move(specs), form);
    for (const ParameterSpec& spec : conversion->specs) (void)conversion->reader.find(spec);
    return target_tensors(conversion, form);
  });
}

Status set_gguf_form(const checkpoint::CheckpointSource& source, const ModelConfig& config, const std::string& name,
                     checkpoint::ConvertOptions& options, const std::shared_ptr<MergedWeights>& merged) {
  return catching([&] {
    const Architecture& architecture = *find_architecture(config.architecture);
    if (architecture.gguf.empty()) {
      throw Failure(data_error(cat(source.path().string(), ": the architecture"), "one that is written as GGUF here",
                               architecture.name, "keep this model as a directory"));
    }
    set_tensors(source, config, Form::gguf, merged, options);
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", architecture.gguf);
    metadata.set("general.type", "model");
    metadata.set("general.name", name);
    metadata.set("general.size_label", size_label(config.num_parameters()));
    set_gguf_config(config, metadata);
    options.metadata = std::move(metadata);
    const bool is_long = config.rope_scaling == RopeScaling::longrope;
    if (!has_gguf_divisors(config.rope_scaling)) return Unit{};
    if (!(is_long ? architecture.gguf_longrope : architecture.gguf_rope_factors)) {
      throw Failure(data_error(
          cat(source.path().string(), ": the rope_type"), "default or linear for a GGUF",
          cat(rope_type_name(config.rope_scaling), ", which llama.cpp does not read from one of this architecture"),
          "keep this model as a directory"));
    }
    const std::vector<std::int64_t> shape = {config.rotary_dim / 2};
    if (is_long) {
      options.added.push_back({kLongFactors, shape, config.rope_long_factors});
      options.added.push_back({kShortFactors, shape, config.rope_short_factors});
    } else {
      options.added.push_back({"rope_freqs.weight", shape, rope_factors(config)});
    }
    return Unit{};
  });
}

Status set_merged_gguf(const checkpoint::CheckpointSource& source, const std::shared_ptr<MergedWeights>& merged,
                       checkpoint::ConvertOptions& options) {
  return catching([&] {
    const auto conversion = std::make_shared<Conversion>(source, merged, Form::gguf);
    std::map<std::string, checkpoint::TargetTensor> changed;
    for (const StoredTensor& tensor : stored_tensors(conversion->specs, Form::gguf)) {
      const bool changes = std::any_of(tensor.rows.begin(), tensor.rows.end(),
                                       [&](const auto& some) { return conversion->changes(*some.spec); });
      if (changes) changed.emplace(tensor.name, target_tensor(conversion, tensor, Form::gguf));
    }
    std::vector<checkpoint::TargetTensor> tensors = checkpoint::tensors_as_stored(source).value();
    for (checkpoint::TargetTensor& tensor : tensors) {
      const auto found = changed.find(tensor.name);
      options.tensors.push_back(found == changed.end() ? std::move(tensor) : std::move(found->second));
    }
    return Unit{};
  });
}

Result<ModelConfig> set_hugging_face_form(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                          checkpoint::ConvertOptions& options) {
  return catching([&] {
    set_tensors(source, config, Form::hugging_face, nullptr, options);
    require_named_rope(config, cat(source.path().string(), ": tensor rope_freqs.weight"));
    return config;
  });
}

}  // namespace tern::models
