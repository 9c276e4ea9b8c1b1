#include "models/loader.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "accel/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "models/parameter_reader.h"
#include "nn/rope.h"
#include "ops/emit.h"
#include "ops/ref/packing.h"

namespace tern::models {
namespace {

using checkpoint::LogicalTensor;

constexpr std::uint64_t kWorthALine = 1'000'000;  // bytes of memory

// Rows of whole bytes in the order that `order` names. Rows are whole, so a quantised tensor permutes alike.
std::vector<std::byte> reordered(std::span<const std::byte> bytes, const std::vector<std::int64_t>& order) {
  const std::size_t row_bytes = bytes.size() / order.size();
  std::vector<std::byte> out(bytes.size());
  for (std::size_t row = 0; row < order.size(); ++row) {
    std::memcpy(out.data() + row * row_bytes, bytes.data() + static_cast<std::size_t>(order[row]) * row_bytes,
                row_bytes);
  }
  return out;
}

// How the tensor is described to a device where it can stay as it is stored; absent where its planes have no meaning
// fixed by ops/ref/packing.h, or not the one that they have here.
TensorDesc stored_desc(const LogicalTensor& tensor) {
  const checkpoint::Storage& storage = tensor.data->storage;
  if (tensor.scheme.packing == TERN_PACK_NONE) {
    const auto dtype = storage.dtype;
    const bool plain =
        tensor.scale == nullptr && dtype && (*dtype == TERN_F32 || *dtype == TERN_BF16 || *dtype == TERN_F16);
    return plain ? make_desc(*dtype, tensor.shape) : absent_desc();
  }
  if (tensor.shape.size() != 2 || tensor.zero != nullptr || !ops::ref::packing_is_known(tensor.scheme))
    return absent_desc();
  if (tensor.scale == nullptr)
    return make_quantised_desc(TERN_F32, gguf_scheme(static_cast<tern_packing>(tensor.scheme.packing)), tensor.shape[0],
                               tensor.shape[1]);
  if (tensor.scheme.packing == TERN_PACK_F8_BLOCK && storage.dtype != TERN_F8_E4M3) return absent_desc();
  const TensorDesc desc = make_quantised_desc(TERN_F32, tensor.scheme, tensor.shape[0], tensor.shape[1]);
  const bool fits = total_bytes(desc) == tensor.stored_bytes();  // one scale for all rows has no place in ROW_INT8
  return fits ? desc : absent_desc();
}

std::string megabytes(std::uint64_t bytes) { return cat(fixed(static_cast<double>(bytes) / 1e6, 1), " MB"); }

class Loader {
 public:
  Loader(LoadedModel& model, const LoadOptions& options) : m_(model), reader_(*model.source), options_(options) {}

  void run() {
    const auto specs = m_.architecture->parameters(m_.config);
    refuse_unused(specs);
    std::uint64_t total = 0;
    for (const auto& spec : specs) total += reader_.find(spec).stored_bytes();
    std::uint64_t done = 0;
    for (const auto& spec : specs) {
      const LogicalTensor& tensor = reader_.find(spec);
      load(spec, tensor);
      done += tensor.stored_bytes();
      if (options_.progress) options_.progress(done, total);
    }
    m_.source->intact().value();
    const std::int64_t rows = options_.max_positions > 0 ? options_.max_positions : m_.config.max_position_embeddings;
    for (const RopeTable& table : m_.architecture->rope_tables(m_.config)) {
      nn::add_rope_table(*m_.store, table.kind, table.frequencies, rows);
    }
    write_notes();
  }

 private:
  void write_notes() const {
    if (!expanded_.empty()) {
      m_.notes.push_back(cat("weights of type ", join({expanded_.begin(), expanded_.end()}, ", "), " were expanded to ",
                             dtype_name(options_.dtype), ", ", megabytes(expanded_bytes_), " in place of ",
                             megabytes(stored_bytes_), ": ", m_.store->device()->name(), " has no product for them"));
    }
    if (copied_bytes_ >= kWorthALine) {
      std::vector<std::string> types;
      for (const tern_dtype dtype : copied_) types.emplace_back(dtype_info(dtype).torch);
      m_.notes.push_back(cat("weights in ", join(types, " and "), " are held in ", dtype_info(options_.dtype).torch,
                             ": a copy of ", megabytes(copied_bytes_), ", where --torch_dtype ", types.front(),
                             " reads them from the file's own pages"));
    }
  }

  void refuse_unused(const std::vector<ParameterSpec>& specs) const {
    std::set<std::string> known;
    for (const auto& spec : specs) known.insert(stored_name(*m_.source, spec));
    for (const auto& [name, tensor] : reader_.all()) {
      if (known.contains(name) || is_needless(*m_.source, name, m_.config)) continue;
      throw Failure(data_error(cat(m_.source->path().string(), ": tensor ", name),
                               cat("only tensors that ", m_.config.architecture, " reads"), "one that it does not",
                               "the checkpoint is of another architecture, or its config.json is"));
    }
  }

  void load(const ParameterSpec& spec, const LogicalTensor& tensor) {
    if (options_.fp32_masters) return (void)load_rounded(spec, tensor, TERN_F32);
    const TensorDesc desc = stored_desc(tensor);
    const bool is_plain = is_present(desc) && !is_quantised(desc);
    const bool stays = is_plain ? desc.dtype == options_.dtype : is_present(desc) && multiplies(desc);
    if (stays) return place(spec, tensor, desc);
    const std::uint64_t bytes = load_rounded(spec, tensor, options_.dtype);
    if (!is_plain) {
      expanded_.insert(tensor.storage_name());
      stored_bytes_ += tensor.stored_bytes();
      expanded_bytes_ += bytes;
    } else if (can_map(spec, tensor)) {
      copied_.insert(static_cast<tern_dtype>(desc.dtype));
      copied_bytes_ += bytes;
    }
  }

  // Whether the device multiplies by weights of this scheme and shape, asked once for each.
  bool multiplies(const TensorDesc& weight) {
    const auto [known, is_new] =
        multiplies_.try_emplace(cat(to_string(weight), " ", weight.scheme.group_rows, " ", weight.scheme.group_cols,
                                    " ", dtype_name(weight.scheme.scale_dtype)),
                                false);
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

  // Whether the device can read the file's pages as this parameter.
  [[nodiscard]] bool can_map(const ParameterSpec& spec, const LogicalTensor& tensor) const {
    const auto& device = m_.store->device();
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data->bytes.data());
    const std::uint64_t alignment = std::max<std::uint64_t>(device->info().import_alignment, 1);
    return device->can(TERN_CAP_IMPORT_HOST) && address % alignment == 0 && tensor.scale == nullptr &&
           reader_.rows(spec).empty();
  }

  // As stored: mapped without a copy where the device and the file's layout allow it.
  void place(const ParameterSpec& spec, const LogicalTensor& tensor, const TensorDesc& desc) {
    const auto order = reader_.rows(spec);
    if (!order.empty()) return add(spec, tensor, desc, reordered(tensor.data->bytes, order));
    if (tensor.scale != nullptr) {
      std::vector<std::byte> planes(tensor.data->bytes.begin(), tensor.data->bytes.end());
      planes.insert(planes.end(), tensor.scale->bytes.begin(), tensor.scale->bytes.end());
      return add(spec, tensor, desc, planes);
    }
    if (can_map(spec, tensor)) {
      auto buffer = m_.store->device()->import_host(tensor.data->bytes);
      if (buffer.ok()) {
        m_.store->adopt(spec.name, desc, std::move(*buffer),
                        [source = m_.source, data = tensor.data] { source->done_with(*data); });
        return;
      }
    }
    add(spec, tensor, desc, tensor.data->bytes);
  }

  // The file's pages of what was copied need not stay in memory.
  void add(const ParameterSpec& spec, const LogicalTensor& tensor, const TensorDesc& desc,
           std::span<const std::byte> bytes) {
    m_.store->create(spec.name, desc);
    m_.store->upload(spec.name, bytes);
    m_.source->done_with(*tensor.data);
  }

  // Gives the bytes that it takes.
  std::uint64_t load_rounded(const ParameterSpec& spec, const LogicalTensor& tensor, tern_dtype dtype) {
    const std::vector<float> values = reader_.read(spec);
    const TensorDesc desc = make_desc(dtype, spec.shape);
    if (dtype == TERN_F32) {
      add(spec, tensor, desc, std::as_bytes(std::span(values)));
    } else {
      add(spec, tensor, desc, rounded(values, dtype));
    }
    return total_bytes(desc);
  }

  LoadedModel& m_;
  ParameterReader reader_;
  const LoadOptions& options_;
  std::map<std::string, bool> multiplies_;
  std::set<std::string> expanded_;  // names of storages
  std::set<tern_dtype> copied_;     // as stored: what could be mapped, but for its dtype
  std::uint64_t stored_bytes_ = 0;
  std::uint64_t expanded_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace

Result<LoadedModel> load_model(ModelConfig config, std::shared_ptr<checkpoint::CheckpointSource> source,
                               accel::DevicePtr device, const LoadOptions& options) {
  return catching([&] {
    LoadedModel model;
    model.config = std::move(config);
    model.dtype = options.dtype;
    model.architecture = find_architecture(model.config.architecture);
    model.source = std::move(source);
    model.store = std::make_shared<graph::TensorStore>(std::move(device));
    Loader(model, options).run();
    return model;
  });
}

}  // namespace tern::models
