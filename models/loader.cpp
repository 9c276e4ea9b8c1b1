#include "models/loader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "accel/kernel.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/nf4.h"
#include "base/strings.h"
#include "graph/pack_again.h"
#include "graph/row_parts.h"
#include "models/load_into.h"
#include "models/mmproj.h"
#include "models/other_heads.h"
#include "models/parameter_reader.h"
#include "models/quantise_rows.h"
#include "models/stored_planes.h"
#include "models/tiled_columns.h"
#include "models/vision.h"
#include "nn/rope.h"
#include "ops/emit.h"
#include "ops/ref/packing.h"

namespace tern::models {
namespace {

using checkpoint::LogicalTensor;

constexpr std::uint64_t kWorthALine = 1'000'000;  // bytes of memory

// A parameter in its file.
struct Stored {
  const ParameterSpec* spec = nullptr;
  std::vector<const LogicalTensor*> tensors;
  std::vector<RowRun> runs;
  TiledHeads columns = {};          // the order of columns in the file
  bool is_plain = false;            // of a dtype that weights can be held in
  bool is_mxfp4 = false;            // codes and scales apart, which are held as ggml's blocks
  TensorDesc desc = absent_desc();  // how it is described to a device as it is stored; absent where that can't be

  [[nodiscard]] const LogicalTensor& first() const { return *tensors.front(); }
  [[nodiscard]] bool has_one_type() const {
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const auto* tensor) { return tensor->storage_name() == first().storage_name(); });
  }
  // The one tensor whose rows are the parameter's, as they are.
  [[nodiscard]] bool is_whole_tensor() const {
    return tensors.size() == 1 && runs.size() == 1 && columns.groups == 0 && spec->shape == first().shape;
  }
};

// Rows of all matrices: a quantised tensor has two dimensions.
std::int64_t num_rows(std::span<const std::int64_t> shape) {
  std::int64_t rows = 1;
  for (const std::int64_t size : shape.first(shape.size() - 1)) rows *= size;
  return rows;
}

// Whether it's a stack of experts' weights: no other parameter has three dimensions but their biases.
bool is_of_experts(const ParameterSpec& spec) { return spec.shape.size() == 3 && !spec.is_bias; }

// How the tensor is described to a device where it can stay as it is stored; absent where it can't, or where it is
// several planes (stored_planes.h).
TensorDesc stored_desc(const LogicalTensor& tensor) {
  const checkpoint::Storage& storage = tensor.data->storage;
  if (tensor.scheme.packing == TERN_PACK_NONE) {
    const auto dtype = storage.dtype;
    const bool plain =
        tensor.scale == nullptr && dtype && (*dtype == TERN_F32 || *dtype == TERN_BF16 || *dtype == TERN_F16);
    return plain ? make_desc(*dtype, tensor.shape) : absent_desc();
  }
  if (tensor.scale != nullptr || tensor.shape.size() < 2 || !ops::ref::packing_is_known(tensor.scheme))
    return absent_desc();
  return make_quantised_desc(TERN_F32, gguf_scheme(static_cast<tern_packing>(tensor.scheme.packing)),
                             num_rows(tensor.shape), tensor.shape.back());
}

std::string megabytes(std::uint64_t bytes) { return cat(fixed(static_cast<double>(bytes) / 1e6, 1), " MB"); }

// The rows' bytes, one run after the other, where the planes of a row are one.
std::vector<std::byte> gathered(const Stored& stored, std::uint64_t row_bytes) {
  std::vector<std::byte> out;
  for (const RowRun& run : stored.runs) {
    const auto rows = stored.tensors[run.tensor]->data->bytes.subspan(
        static_cast<std::uint64_t>(run.first) * row_bytes, static_cast<std::uint64_t>(run.count) * row_bytes);
    if (stored.columns.groups == 0) {
      out.insert(out.end(), rows.begin(), rows.end());
      continue;
    }
    for (std::uint64_t at = 0; at < rows.size(); at += row_bytes) {
      append_row(stored.columns, stored.spec->shape.back(), rows.subspan(at, row_bytes), out);
    }
  }
  return out;
}

std::vector<std::byte> mxfp4_blocks(const Stored& stored) {
  std::vector<std::byte> out;
  for (const RowRun& run : stored.runs)
    checkpoint::append_mxfp4_blocks(*stored.tensors[run.tensor], run.first, run.count, out);
  return out;
}

// Memory of weights that are quantised while they're loaded.
struct Quantised {
  std::uint64_t bytes = 0;              // of those that were
  std::uint64_t plain_bytes = 0;        // that these would have taken
  std::uint64_t unquantised_bytes = 0;  // of those that the device has no product for
};

class Loader {
 public:
  Loader(ParameterReader& reader, std::shared_ptr<checkpoint::CheckpointSource> source, graph::TensorStore& store,
         const LoadOptions& options, Into into = Into::made)
      : source_(std::move(source)), store_(store), reader_(reader), options_(options), into_(into) {}

  std::vector<std::string> run(std::span<const ParameterSpec> specs) {
    std::uint64_t total = 0;
    for (const auto& spec : specs) total += reader_.stored_bytes(spec);
    std::uint64_t done = 0;
    for (const auto& spec : specs) {
      load(find(spec));
      done += reader_.stored_bytes(spec);
      if (options_.progress) options_.progress(done, total);
    }
    source_->intact().value();
    return notes();
  }

 private:
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> lines;
    for (const auto& [reason, some] : expanded_) {
      lines.push_back(cat("weights of type ", join({some.types.begin(), some.types.end()}, ", "), " were expanded to ",
                          dtype_name(options_.dtype), ", ", megabytes(some.bytes), " in place of ",
                          megabytes(some.stored_bytes), ": ", reason));
    }
    add_notes_on_quantising(of_layers_, "linear layers", lines);
    add_notes_on_quantising(of_experts_, "routed experts", lines);
    if (!quantised_experts_.empty()) {
      lines.push_back(cat("weights of routed experts stay as they're stored, in ",
                          join({quantised_experts_.begin(), quantised_experts_.end()}, ", ")));
    }
    if (copied_bytes_ >= kWorthALine) {
      std::vector<std::string> types;
      for (const tern_dtype dtype : copied_) types.emplace_back(dtype_info(dtype).torch);
      lines.push_back(cat("weights in ", join(types, " and "), " are held in ", dtype_info(options_.dtype).torch,
                          ": a copy of ", megabytes(copied_bytes_), ", where --torch_dtype ", types.front(),
                          " reads them from the file's own pages"));
    }
    return lines;
  }

  void add_notes_on_quantising(const Quantised& count, const char* what, std::vector<std::string>& lines) const {
    if (count.bytes > 0) {
      lines.push_back(cat("weights of ", what, " were quantised to ", method_name(), ": ", megabytes(count.bytes),
                          " in place of ", megabytes(count.plain_bytes), " in ", dtype_name(options_.dtype)));
    }
    if (count.unquantised_bytes > 0) {
      lines.push_back(cat("weights of ", what, " stay in ", dtype_name(options_.dtype), ", ",
                          megabytes(count.unquantised_bytes), ": ", store_.device()->name(),
                          " has no product for their shapes in ", method_name()));
    }
  }

  [[nodiscard]] std::string_view method_name() const {
    switch (options_.quantise->method) {
      case QuantiseMethod::int8:
        return "int8";
      case QuantiseMethod::fp8:
        return "fp8";
      default:
        return options_.quantise->double_quant ? "nf4 with scales of 8 bits" : "nf4";
    }
  }

  [[nodiscard]] Stored find(const ParameterSpec& spec) const {
    const ParameterSource& source = reader_.source_of(spec);
    Stored stored{&spec, reader_.find(spec), row_runs(spec, source), source.tiled_columns};
    const TensorDesc desc = stored_desc(stored.first());
    if (spec.added_rows > 0) {
      stored.is_plain = is_present(desc) && !is_quantised(desc);
      return stored;
    }
    if (stored.columns.groups > 0 && !moves_whole(stored.columns, desc)) return stored;
    stored.is_plain = is_present(desc) && !is_quantised(desc);
    ParameterSource in_order = source;
    in_order.tiled_columns = {};
    if (!stored.has_one_type() || transposes_any(source) || !same_numbers(in_order, {})) return stored;
    if (stored.first().scheme.packing == TERN_PACK_MXFP4) {
      stored.is_mxfp4 = true;
      stored.desc =
          make_quantised_desc(TERN_F32, gguf_scheme(TERN_PACK_GGUF_MXFP4), num_rows(spec.shape), spec.shape.back());
      return stored;
    }
    if (stored.first().scale != nullptr) {
      if (stored.columns.groups == 0) stored.desc = joined_desc(stored.tensors, stored.runs);
    } else if (stored.is_plain) {
      stored.desc = make_desc(desc.dtype, spec.shape);
    } else if (stored.is_whole_tensor()) {
      stored.desc = desc;
    } else if (is_present(desc) && spec.shape.size() >= 2) {
      stored.desc = make_quantised_desc(TERN_F32, desc.scheme, num_rows(spec.shape), spec.shape.back());
    }
    return stored;
  }

  void load(const Stored& stored) {
    const bool is_master = options_.is_master && options_.is_master(stored.spec->name);
    const tern_dtype dtype = is_master || stored.spec->is_buffer ? TERN_F32 : options_.dtype;
    if (options_.quantise && (stored.spec->is_linear || is_of_experts(*stored.spec)) &&
        load_quantised(stored, dtype, is_master))
      return;
    const bool may_stay = is_present(stored.desc) && !is_master && !is_quantised_table(stored);
    const bool fits = stored.is_plain ? stored.desc.dtype == dtype : multiplies(stored.desc, *stored.spec);
    if (may_stay && fits) return place(stored);
    const std::uint64_t bytes = load_rounded(stored, dtype);
    if (is_master) return;
    if (!stored.is_plain) {
      Expanded& expanded = expanded_[reason_of(stored)];
      for (const LogicalTensor* tensor : stored.tensors) expanded.types.insert(tensor->storage_name());
      expanded.stored_bytes += reader_.stored_bytes(*stored.spec);
      expanded.bytes += bytes;
    } else if (is_present(stored.desc) && can_map(stored)) {
      copied_.insert(static_cast<tern_dtype>(stored.desc.dtype));
      copied_bytes_ += bytes;
    }
  }

  // Of a tower's mmproj file: positions, whose rows are added, where a language model's table is looked up.
  [[nodiscard]] bool is_quantised_table(const Stored& stored) const {
    return !stored.is_plain && !stored.spec->is_linear && source_->gguf() != nullptr && is_mmproj(*source_->gguf());
  }

  // Why a quantised weight can't stay as it is stored.
  [[nodiscard]] std::string reason_of(const Stored& stored) const {
    if (is_quantised_table(stored)) return "their rows are added";
    if (stored.spec->added_rows > 0) return "they got rows for new tokens";
    if (!stored.has_one_type()) return "each is a part of one product";
    const TensorDesc desc = stored_desc(stored.first());
    if (stored.columns.groups > 0 && is_present(desc) && !moves_whole(stored.columns, desc))
      return "the file has their heads in another order, and their blocks span several";
    return cat(store_.device()->name(), " has no product for them");
  }

  // Whether rows of the weight are rows of each of its planes.
  static bool can_be_cut(const tern_scheme& scheme) {
    const bool across = scheme.packing == TERN_PACK_AWQ_INT4 || scheme.packing == TERN_PACK_GPTQ_INT4;
    return !across && !is_levels4(scheme.packing);
  }

  // Whether the device multiplies by weights of this scheme and shape, asked once for each.
  bool multiplies(const TensorDesc& weight, const ParameterSpec& spec) {
    if (!is_present(weight)) return false;
    const std::int64_t experts = spec.shape.size() == 3 ? spec.shape[0] : 0;
    const auto [known, is_new] = multiplies_.try_emplace(
        cat(to_string(weight), " ", weight.scheme.bits, " ", weight.scheme.group_rows, " ", weight.scheme.group_cols,
            " ", dtype_name(weight.scheme.scale_dtype), " ", weight.scheme.flags, " ", experts),
        false);
    if (!is_new) return known->second;
    if (!can_be_cut(weight.scheme) && graph::row_parts(weight, store_.device()->info(), spec.name).size() > 1)
      return false;
    accel::OpDesc desc;
    if (experts > 0) {
      desc.op = TERN_OP_GROUPED_MATMUL;
      desc.args = {make_desc(TERN_F32, {16, 1, weight.shape[1]}), weight, absent_desc(),
                   make_desc(TERN_I32, {experts + 1}), make_desc(TERN_F32, {16, 1, weight.shape[0] / experts})};
      desc.attrs = ops::pack_attrs(tern_grouped_matmul_attrs{1, TERN_F32});
      return known->second = accel::supports(*store_.device(), desc).native;
    }
    desc.op = TERN_OP_MATMUL_Q;
    desc.args = {make_desc(TERN_F32, {16, weight.shape[1]}), weight, absent_desc(),
                 make_desc(TERN_F32, {16, weight.shape[0]})};
    desc.attrs = ops::pack_attrs(tern_matmul_q_attrs{1, TERN_F32});
    // A device of whole graphs only is asked alike: `supports` judges ops, however they are run.
    return known->second = accel::supports(*store_.device(), desc).native;
  }

  // The file's pages that are the parameter, of one run of rows; empty where there are several.
  [[nodiscard]] static std::span<const std::byte> pages(const Stored& stored) {
    if (stored.runs.size() != 1 || stored.columns.groups > 0 || stored.first().scale != nullptr) return {};
    const std::uint64_t bytes = total_bytes(stored.desc);
    const auto rows = static_cast<std::uint64_t>(stored.runs.front().count);
    return stored.first().data->bytes.subspan(static_cast<std::uint64_t>(stored.runs.front().first) * (bytes / rows),
                                              bytes);
  }

  // Whether the device can read the file's pages as this parameter.
  [[nodiscard]] bool can_map(const Stored& stored) const {
    const auto& device = store_.device();
    const auto address = reinterpret_cast<std::uintptr_t>(pages(stored).data());
    const std::uint64_t alignment = std::max<std::uint64_t>(device->info().import_alignment, 1);
    return into_ == Into::made && device->can(TERN_CAP_IMPORT_HOST) && address != 0 && address % alignment == 0 &&
           graph::row_parts(stored.desc, device->info(), stored.spec->name).size() == 1;
  }

  // As stored: mapped without a copy where the device and the file's layout allow it.
  void place(const Stored& stored) {
    if (can_map(stored) && store_.only_counts()) {
      return store_.count_mapped(stored.spec->name, stored.desc,
                                 [source = source_, data = stored.first().data] { source->done_with(*data); });
    }
    if (can_map(stored)) {
      auto buffer = store_.device()->import_host(pages(stored));
      if (buffer.ok()) {
        store_.adopt(stored.spec->name, stored.desc, std::move(*buffer),
                     [source = source_, data = stored.first().data] { source->done_with(*data); });
        return;
      }
    }
    if (store_.only_counts()) return store_.create(stored.spec->name, stored.desc);
    if (stored.is_mxfp4) return add(stored, stored.desc, mxfp4_blocks(stored));
    if (const auto whole = pages(stored); !whole.empty()) return add(stored, stored.desc, whole);
    if (stored.first().scale != nullptr) return add(stored, stored.desc, joined_planes(stored.tensors, stored.runs));
    std::int64_t rows = 0;
    for (const RowRun& run : stored.runs) rows += run.count;
    add(stored, stored.desc, gathered(stored, total_bytes(stored.desc) / static_cast<std::uint64_t>(rows)));
  }

  // The file's pages of what was copied need not stay in memory.
  void add(const Stored& stored, const TensorDesc& desc, std::span<const std::byte> bytes) {
    if (into_ == Into::made) store_.create(stored.spec->name, desc);
    if (into_ != Into::nowhere) store_.upload(stored.spec->name, bytes);
    if (into_ == Into::there) graph::pack_again(store_, stored.spec->name);
    for (const LogicalTensor* tensor : stored.tensors) source_->done_with(*tensor->data);
  }

  // Gives the bytes that it takes.
  std::uint64_t load_rounded(const Stored& stored, tern_dtype dtype) {
    const TensorDesc desc = make_desc(dtype, stored.spec->shape);
    const auto values = store_.only_counts() ? std::vector<float>() : reader_.read(*stored.spec);
    if (store_.only_counts()) {
      store_.create(stored.spec->name, desc);
    } else if (dtype == TERN_F32) {
      add(stored, desc, std::as_bytes(std::span(values)));
    } else {
      add(stored, desc, rounded(stored.spec->name, values, dtype));
    }
    return total_bytes(desc);
  }

  // Whether the weight was quantised: the device may have no product with it so.
  bool load_quantised(const Stored& stored, tern_dtype dtype, bool is_master) {
    const bool experts = is_of_experts(*stored.spec);
    if (is_master) {
      throw Failure(usage_error(cat("--quant_method quantises ", stored.spec->name, ", which is trained"),
                                "train an adapter with --tuner_type lora, or drop the flag"));
    }
    for (const LogicalTensor* tensor : stored.tensors) {
      if (tensor->scheme.packing == TERN_PACK_NONE && tensor->scale == nullptr) continue;
      if (experts) {  // as gpt-oss is published, whose other layers aren't quantised
        quantised_experts_.insert(tensor->storage_name());
        return false;
      }
      throw Failure(usage_error(
          cat("--quant_method quantises weights, and ", tensor->name, " is ", tensor->storage_name(), " already"),
          "drop the flag"));
    }
    const std::int64_t columns = stored.spec->shape.back(), rows = num_rows(stored.spec->shape);
    const std::int64_t matrices = experts ? std::max<std::int64_t>(stored.spec->shape.front(), 1) : 1;
    const TensorDesc desc = quantised_desc_of(*options_.quantise, matrices, rows / matrices, columns);
    const std::uint64_t bytes = total_bytes(make_desc(dtype, stored.spec->shape));
    Quantised& count = experts ? of_experts_ : of_layers_;
    if (!multiplies(desc, *stored.spec)) {
      count.unquantised_bytes += bytes;
      return false;
    }
    count.bytes += total_bytes(desc);
    count.plain_bytes += bytes;
    if (store_.only_counts()) {
      store_.create(stored.spec->name, desc);
      return true;
    }
    add(stored, desc,
        quantised_planes_of(*options_.quantise, desc, matrices, [&](std::int64_t first, std::int64_t some) {
          return values_to_quantise(stored, dtype, first, some);
        }));
    return true;
  }

  // Rows of a weight, rounded to dtype first.
  [[nodiscard]] std::vector<float> values_to_quantise(const Stored& stored, tern_dtype dtype, std::int64_t first,
                                                      std::int64_t count) {
    std::vector<float> values = reader_.read(*stored.spec, first, count);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
      throw Failure(data_error(stored.first().name, "finite numbers to quantise", "NaN or an infinity",
                               "take a sound copy of the model"));
    }
    if (dtype != TERN_F32) {
      for (float& value : values)
        value = dtype == TERN_BF16 ? bf16_to_float(float_to_bf16(value)) : fp16_to_float(float_to_fp16(value));
    }
    return values;
  }

  std::shared_ptr<checkpoint::CheckpointSource> source_;
  graph::TensorStore& store_;
  ParameterReader& reader_;
  const LoadOptions& options_;
  Into into_;
  std::map<std::string, bool> multiplies_;
  struct Expanded {
    std::set<std::string> types;  // names of storages
    std::uint64_t stored_bytes = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Expanded> expanded_;  // by the reason
  Quantised of_layers_, of_experts_;
  std::set<std::string> quantised_experts_;  // storages of experts that were quantised already
  std::set<tern_dtype> copied_;              // as stored: what could be mapped, but for its dtype
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace

Result<std::vector<std::string>> load_parameters(std::span<const ParameterSpec> specs, ParameterReader& reader,
                                                 std::shared_ptr<checkpoint::CheckpointSource> source,
                                                 graph::TensorStore& store, const LoadOptions& options) {
  return catching([&] { return Loader(reader, std::move(source), store, options).run(specs); });
}

Status load_into(Into into, std::span<const ParameterSpec> specs, ParameterReader& reader,
                 const std::shared_ptr<checkpoint::CheckpointSource>& source, graph::TensorStore& store,
                 const LoadOptions& options) {
  return catching([&] { return Loader(reader, source, store, options, into).run(specs), Unit{}; });
}

Result<LoadedModel> load_model(ModelConfig config, std::shared_ptr<checkpoint::CheckpointSource> source,
                               accel::DevicePtr device, const LoadOptions& options) {
  return catching([&] {
    LoadedModel model;
    model.config = std::move(config);
    model.dtype = options.dtype;
    model.architecture = find_architecture(model.config.architecture);
    model.source = std::move(source);
    model.store = std::make_shared<graph::TensorStore>(std::move(device), options.backing);
    auto specs = parameters_of(model.config);
    ParameterReader reader(*model.source, encoder_prefix(model.config));
    if (model.config.label_head_is_new) {  // the file is the language model's
      reader.require_all(language_parameters_of(model.config), model.config);
      std::erase_if(specs, [](const ParameterSpec& spec) { return spec.name == kScoreWeight; });
      const auto labels = static_cast<std::int64_t>(model.config.labels.size());
      model.store->create(kScoreWeight, make_desc(TERN_F32, {labels, model.config.hidden_size}));
      model.store->fill_zero(kScoreWeight);
    } else {
      reader.require_all(specs, model.config);
    }
    model.notes = load_parameters(specs, reader, model.source, *model.store, options).value();
    for (std::string& note : checkpoint::notes_on_quantization(*model.source)) model.notes.push_back(std::move(note));
    const auto tensors = model.source->tensors();
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const auto& tensor) { return is_of_prediction_layers(tensor.name, model.config); })) {
      const bool may_guess = model.architecture->layer != nullptr && model.source->gguf() == nullptr;
      model.notes.push_back(
          cat("the layers that predict further tokens are ",
              may_guess ? "read for guesses of the method mtp alone" : "left out: nothing here reads them"));
    }
    if (const std::string heads = other_heads(*model.source, model.config, specs); !heads.empty())
      model.notes.push_back(cat("the checkpoint's ", heads, " is left out: nothing here reads it"));
    if (options.vision && model.config.vision) {
      load_vision(model, options).value();
    } else if (const auto& parts = reader.other_parts();
               !parts.empty() && !(options.vision_later && model.config.vision)) {
      model.notes.push_back(cat("the checkpoint's ", join({parts.begin(), parts.end()}, ", "),
                                " is left out: this reads its language model alone"));
    }
    const std::int64_t context = model.config.max_position_embeddings;
    const std::int64_t rows = options.max_positions > 0 ? options.max_positions : context;
    if (model.config.rope_scaling == RopeScaling::dynamic && rows > context) {
      throw Failure(usage_error(cat("this model's context is ", context, " tokens, and the run would take ", rows,
                                    ", where its rope_type, dynamic, changes what tern computes"),
                                "choose a shorter --max_length"));
    }
    for (const RopeTable& table : model.architecture->rope_tables(model.config)) {
      const bool is_long = !table.long_frequencies.empty() && static_cast<double>(rows) > table.border;
      std::vector<double> amplitudes;
      for (std::int64_t position = 0; position < rows; ++position) amplitudes.push_back(table.amplitude_at(position));
      nn::add_rope_table(*model.store, table.kind, is_long ? table.long_frequencies : table.frequencies, amplitudes);
      if (table.long_frequencies.empty()) continue;
      model.notes.push_back(cat("positions turn by the rope scaling's ", is_long ? "long" : "short",
                                "_factor: the run takes up to ", rows, " tokens, and that changes after ",
                                table.border));
    }
    return model;
  });
}

}  // namespace tern::models
