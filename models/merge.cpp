#include "models/merge.h"

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "models/parameter_reader.h"

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

// weight [out, in] += scaling * b [out, rank] a [rank, in]; true where the adapter has this module.
bool add_adapter(const HostAdapter& adapter, const std::string& module, std::int64_t out, std::int64_t in,
                 std::vector<float>& weight) {
  const auto* a_tensor = adapter.file.tensor(peft_name(module, "lora_A"));
  const auto* b_tensor = adapter.file.tensor(peft_name(module, "lora_B"));
  if (a_tensor == nullptr || b_tensor == nullptr) return false;
  const std::int64_t rank = adapter.config.rank;
  const auto a = read_f32(adapter, *a_tensor, {rank, in});
  const auto b = read_f32(adapter, *b_tensor, {out, rank});
  const float scaling = adapter.config.scaling();
  std::vector<float> delta(static_cast<std::size_t>(in));
  for (std::int64_t o = 0; o < out; ++o) {
    std::fill(delta.begin(), delta.end(), 0.0F);
    for (std::int64_t r = 0; r < rank; ++r) {
      const float factor = b[static_cast<std::size_t>(o * rank + r)];
      const float* row = a.data() + r * in;
      for (std::int64_t i = 0; i < in; ++i) delta[static_cast<std::size_t>(i)] += factor * row[i];
    }
    float* target = weight.data() + o * in;
    for (std::int64_t i = 0; i < in; ++i) target[i] += scaling * delta[static_cast<std::size_t>(i)];
  }
  return true;
}

void require_all_used(const HostAdapter& adapter, std::size_t modules_used) {
  if (adapter.file.tensors().size() == 2 * modules_used) return;
  throw Failure(data_error(adapter.where, "only LoRA pairs of this model's linear layers",
                           cat(adapter.file.tensors().size(), " tensors, of which ", 2 * modules_used, " fit"),
                           "the adapter is of another model: name the one it was trained on"));
}

}  // namespace

Status merge_weights(const checkpoint::CheckpointSource& source, const ModelConfig& config, const MergeOptions& options,
                     const std::filesystem::path& directory) {
  return catching([&] {
    const auto specs = find_architecture(config.architecture)->parameters(config);
    std::vector<HostAdapter> adapters;
    for (const auto& path : options.adapters) {
      adapters.push_back({read_adapter_config(path).value(),
                          checkpoint::Safetensors::open_directory(path, "adapter_model").value(),
                          (path / "adapter_model.safetensors").string()});
    }
    std::vector<checkpoint::TensorSpec> tensors;
    std::uint64_t total = 0;
    for (const auto& spec : specs) {
      tensors.push_back({spec.name, std::string(dtype_info(options.dtype).safetensors), spec.shape});
      total += static_cast<std::uint64_t>(num_elements(make_desc(TERN_F32, spec.shape)));
    }
    checkpoint::SafetensorsWriteOptions write;
    write.max_shard_size = options.max_shard_size;
    auto writer = checkpoint::SafetensorsWriter::create(directory, tensors, write).value();
    ParameterReader reader(source);
    std::vector<std::size_t> used(adapters.size(), 0);
    std::uint64_t done = 0;
    for (const auto& spec : specs) {
      std::vector<float> values = reader.read(spec);
      for (std::size_t i = 0; spec.is_linear && i < adapters.size(); ++i) {
        const std::string module = spec.name.substr(0, spec.name.size() - 7);
        if (add_adapter(adapters[i], module, spec.shape[0], spec.shape[1], values)) ++used[i];
      }
      writer.write(spec.name, rounded(values, options.dtype)).value();
      done += values.size();
      if (options.progress) options.progress(done, total);
    }
    for (std::size_t i = 0; i < adapters.size(); ++i) require_all_used(adapters[i], used[i]);
    source.intact().value();
    writer.finish().value();
    return Unit{};
  });
}

}  // namespace tern::models
