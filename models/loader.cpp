#include "models/loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "accel/kernel.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "ops/emit.h"

namespace tern::models {
namespace {

// GGUF block types that the interface knows as one-plane packings.
tern_packing packing_of(checkpoint::GgmlType type) {
  switch (type) {
    case checkpoint::GgmlType::q4_0:
      return TERN_PACK_GGUF_Q4_0;
    case checkpoint::GgmlType::q4_1:
      return TERN_PACK_GGUF_Q4_1;
    case checkpoint::GgmlType::q8_0:
      return TERN_PACK_GGUF_Q8_0;
    case checkpoint::GgmlType::q5_0:
      return TERN_PACK_GGUF_Q5_0;
    case checkpoint::GgmlType::q5_1:
      return TERN_PACK_GGUF_Q5_1;
    case checkpoint::GgmlType::q4_k:
      return TERN_PACK_GGUF_Q4_K;
    case checkpoint::GgmlType::q6_k:
      return TERN_PACK_GGUF_Q6_K;
    default:
      return TERN_PACK_NONE;
  }
}

// GGUF's rows (head, i, half) in the model's order (head, half, i). Rows are whole, so a quantised tensor permutes
// alike.
std::vector<std::byte> uninterleave_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t heads) {
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t per_head = rows / heads;
  const std::int64_t half = per_head / 2;
  std::vector<std::byte> out(bytes.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row / per_head;
    const std::int64_t part = row % per_head / half;
    const std::int64_t i = row % half;
    const std::int64_t from = head * per_head + i * 2 + part;
    std::memcpy(out.data() + static_cast<std::size_t>(row) * row_bytes,
                bytes.data() + static_cast<std::size_t>(from) * row_bytes, row_bytes);
  }
  return out;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += cat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

const checkpoint::SourceTensor& find_tensor(const checkpoint::CheckpointSource& source, const ParameterSpec& spec) {
  const std::string& name = source.gguf() != nullptr ? spec.gguf_name : spec.name;
  const checkpoint::SourceTensor* tensor = source.require(name).value();
  if (tensor->shape != spec.shape) {
    throw Failure(data_error(cat(source.path().string(), ": tensor ", name), cat("the shape ", shape_text(spec.shape)),
                             shape_text(tensor->shape), "config.json and the weights belong to different models"));
  }
  return *tensor;
}

bool is_interleaved(const checkpoint::CheckpointSource& source, const ParameterSpec& spec) {
  return source.gguf() != nullptr && spec.interleaved_heads > 0;
}

// Tensors that some exporters write and no computation reads.
bool is_harmless(const std::string& name, const ModelConfig& config) {
  if (name == "rope_freqs.weight") return true;  // read with the config
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  return config.tie_word_embeddings && (name == "lm_head.weight");
}

class Loader {
 public:
  Loader(LoadedModel& model, const LoadOptions& options) : m_(model), options_(options) {}

  void run() {
    const auto specs = m_.architecture->parameters(m_.config);
    refuse_unused(specs);
    std::uint64_t total = 0;
    for (const auto& spec : specs) total += find_tensor(*m_.source, spec).bytes.size();
    std::uint64_t done = 0;
    for (const auto& spec : specs) {
      const checkpoint::SourceTensor& tensor = find_tensor(*m_.source, spec);
      load(spec, tensor);
      done += tensor.bytes.size();
      if (options_.progress) options_.progress(done, total);
    }
    m_.source->intact().value();
    add_rope_tables();
    if (!expanded_.empty()) {
      m_.notes.push_back(cat("weights of type ", join({expanded_.begin(), expanded_.end()}, ", "),
                             " were expanded to bf16: ", m_.store->device()->name(), " has no product for them"));
    }
  }

 private:
  void refuse_unused(const std::vector<ParameterSpec>& specs) const {
    std::set<std::string> known;
    for (const auto& spec : specs) known.insert(m_.source->gguf() != nullptr ? spec.gguf_name : spec.name);
    for (const auto& tensor : m_.source->tensors()) {
      if (known.contains(tensor.name) || is_harmless(tensor.name, m_.config)) continue;
      throw Failure(data_error(cat(m_.source->path().string(), ": tensor ", tensor.name),
                               cat("only tensors that ", m_.config.architecture, " reads"), "one that it does not",
                               "the checkpoint is of another architecture, or its config.json is"));
    }
  }

  void load(const ParameterSpec& spec, const checkpoint::SourceTensor& tensor) {
    if (options_.fp32_masters) return load_f32(spec, tensor);
    const tern_packing packing = tensor.storage.block ? packing_of(*tensor.storage.block) : TERN_PACK_NONE;
    if (packing != TERN_PACK_NONE && spec.shape.size() == 2) {
      const TensorDesc desc = make_quantised_desc(TERN_F32, gguf_scheme(packing), spec.shape[0], spec.shape[1]);
      if (multiplies(desc)) return place(spec, tensor, desc);
    }
    if (tensor.storage.dtype && (*tensor.storage.dtype == TERN_F32 || *tensor.storage.dtype == TERN_BF16 ||
                                 *tensor.storage.dtype == TERN_F16)) {
      return place(spec, tensor, make_desc(*tensor.storage.dtype, spec.shape));
    }
    load_expanded(spec, tensor);
  }

  // Whether the device multiplies by weights of this scheme, asked once for each.
  bool multiplies(const TensorDesc& weight) {
    const auto [known, is_new] = multiplies_.try_emplace(weight.scheme.packing, false);
    if (!is_new) return known->second;
    accel::OpDesc desc;
    desc.op = TERN_OP_MATMUL_Q;
    desc.args = {make_desc(TERN_F32, {16, weight.shape[1]}), weight, absent_desc(),
                 make_desc(TERN_F32, {16, weight.shape[0]})};
    desc.attrs = ops::pack_attrs(tern_matmul_q_attrs{1, TERN_F32});
    const auto& device = *m_.store->device();
    // A device of whole graphs only is asked alike: `supports` judges ops, however they are run.
    return known->second = accel::supports(device, desc).native;
  }

  // As stored: mapped without a copy where the device and the file's layout allow it. The file's pages of what was
  // copied, here and below, need not stay in memory.
  void place(const ParameterSpec& spec, const checkpoint::SourceTensor& tensor, const TensorDesc& desc) {
    if (is_interleaved(*m_.source, spec)) {
      const auto bytes = uninterleave_rows(tensor.bytes, spec.shape[0], spec.interleaved_heads);
      m_.store->create(spec.name, desc);
      m_.store->upload(spec.name, bytes);
      m_.source->done_with(tensor);
      return;
    }
    const auto& device = m_.store->device();
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
    const std::uint64_t alignment = std::max<std::uint64_t>(device->info().import_alignment, 1);
    if (device->can(TERN_CAP_IMPORT_HOST) && address % alignment == 0) {
      auto buffer = device->import_host(tensor.bytes);
      if (buffer.ok()) {
        m_.store->adopt(spec.name, desc, std::move(*buffer),
                        [source = m_.source, &tensor] { source->done_with(tensor); });
        return;
      }
    }
    m_.store->create(spec.name, desc);
    m_.store->upload(spec.name, tensor.bytes);
    m_.source->done_with(tensor);
  }

  void load_f32(const ParameterSpec& spec, const checkpoint::SourceTensor& tensor) {
    const std::vector<float> values = read_parameter(*m_.source, spec).value();
    m_.store->create(spec.name, make_desc(TERN_F32, spec.shape));
    m_.store->upload(spec.name, std::as_bytes(std::span(values)));
    m_.source->done_with(tensor);
  }

  void load_expanded(const ParameterSpec& spec, const checkpoint::SourceTensor& tensor) {
    expanded_.insert(tensor.storage.name);
    const std::vector<float> values = read_parameter(*m_.source, spec).value();
    std::vector<std::uint16_t> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), float_to_bf16);
    m_.store->create(spec.name, make_desc(TERN_BF16, spec.shape));
    m_.store->upload(spec.name, std::as_bytes(std::span(narrow)));
    m_.source->done_with(tensor);
  }

  // cos and sin of position x frequency, in fp64 before rounding: the phase of position 100,000 keeps its digits.
  void add_rope_tables() {
    const std::vector<double> frequencies = rope_frequencies(m_.config);
    const std::int64_t rows = options_.max_positions > 0 ? options_.max_positions : m_.config.max_position_embeddings;
    const auto half = static_cast<std::int64_t>(frequencies.size());
    std::vector<float> cosines(static_cast<std::size_t>(rows * half));
    std::vector<float> sines(cosines.size());
    for (std::int64_t p = 0; p < rows; ++p) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double phase = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
        cosines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::cos(phase));
        sines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::sin(phase));
      }
    }
    const TensorDesc desc = make_desc(TERN_F32, {rows, half});
    m_.store->create("rope.cos", desc);
    m_.store->create("rope.sin", desc);
    m_.store->upload("rope.cos", std::as_bytes(std::span(cosines)));
    m_.store->upload("rope.sin", std::as_bytes(std::span(sines)));
  }

  LoadedModel& m_;
  const LoadOptions& options_;
  std::map<tern_packing, bool> multiplies_;
  std::set<std::string> expanded_;
};

}  // namespace

Result<std::vector<float>> read_parameter(const checkpoint::CheckpointSource& source, const ParameterSpec& spec) {
  return catching([&] {
    const checkpoint::SourceTensor& tensor = find_tensor(source, spec);
    std::int64_t count = 1;
    for (std::int64_t size : spec.shape) count *= size;
    std::vector<float> values(static_cast<std::size_t>(count));
    source.read_f32(tensor, values).value();
    if (is_interleaved(source, spec)) {
      const auto bytes = uninterleave_rows(std::as_bytes(std::span(values)), spec.shape[0], spec.interleaved_heads);
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return values;
  });
}

tern_dtype fastest_compute_dtype(const accel::Device& device) {
  const float* rate = device.info().matmul_rate;
  if (rate[TERN_BF16] > rate[TERN_F32]) return TERN_BF16;
  if (rate[TERN_F16] > rate[TERN_F32]) return TERN_F16;
  return TERN_F32;
}

Result<LoadedModel> load_model(std::shared_ptr<checkpoint::CheckpointSource> source, accel::DevicePtr device,
                               const LoadOptions& options) {
  return catching([&] {
    LoadedModel model;
    model.config = read_config(*source).value();
    model.architecture = find_architecture(model.config.architecture);
    model.source = std::move(source);
    model.store = std::make_shared<graph::TensorStore>(std::move(device));
    Loader(model, options).run();
    return model;
  });
}

}  // namespace tern::models
