#include "checkpoint/logical_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/gather.h"

namespace tern::checkpoint {
namespace {

// Gathers the planes of one checkpoint; what was taken does not appear on its own.
class Gatherer {
 public:
  explicit Gatherer(const CheckpointSource& source) : source_(source), finder_(source) {}

  std::vector<LogicalTensor> run() {
    check_quantization(finder_);
    for (const SourceTensor& tensor : source_.tensors()) gather(tensor);
    std::vector<LogicalTensor> all;
    for (const SourceTensor& tensor : source_.tensors()) {
      if (finder_.is_taken(tensor.name)) continue;
      all.push_back({.name = tensor.name, .shape = tensor.shape, .scheme = plain_scheme(tensor), .data = &tensor});
    }
    std::move(found_.begin(), found_.end(), std::back_inserter(all));
    return all;
  }

 private:
  static tern_scheme plain_scheme(const SourceTensor& tensor) {
    tern_scheme scheme = {};
    if (!tensor.storage.block) return scheme;
    const GgmlTypeInfo& info = ggml_type_info(*tensor.storage.block);
    scheme.packing = ggml_packing(*tensor.storage.block).value_or(TERN_PACK_NONE);
    scheme.bits = info.block_bytes * 8 / info.block_elements;
    scheme.group_rows = 1;
    scheme.group_cols = info.block_elements;
    scheme.scale_dtype = TERN_F16;
    return scheme;
  }

  void gather(const SourceTensor& tensor) {
    if (is_of_activations(tensor.name)) return finder_.take(tensor.name);
    if (auto found = weight_of(tensor.name)) found_.push_back(*std::move(found));
  }

  // The weight that the tensor says there is: one of each weight's tensors does.
  std::optional<LogicalTensor> weight_of(const std::string& name) {
    constexpr std::string_view kState = ".quant_state.bitsandbytes__";
    if (name.ends_with(".weight_scale_inv")) return fp8_block(base_of(name, "_scale_inv"));
    if (name.ends_with(".weight_packed")) return packed_tensor(finder_, base_of(name, ".weight_packed"));
    if (name.ends_with(".weight_scale")) {
      const std::string weight = base_of(name, "_scale");
      if (finder_.has(weight + "_packed")) return std::nullopt;
      return scaled_tensor(finder_, weight);
    }
    if (name.ends_with(".qweight")) return words(base_of(name, ".qweight"));
    for (const std::string_view type : {"nf4", "fp4"}) {
      if (const std::string state = cat(kState, type); name.ends_with(state))
        return bnb_4bit_tensor(finder_, base_of(name, state), name);
    }
    if (name.ends_with(".SCB")) return bnb_8bit_tensor(finder_, base_of(name, ".SCB"));
    if (name.ends_with("_blocks") && finder_.has(base_of(name, "_blocks") + "_scales"))
      return mxfp4(base_of(name, "_blocks"));
    return std::nullopt;
  }

  LogicalTensor words(const std::string& module) {
    const std::string& method = finder_.method();
    if (method == "awq") return awq_tensor(finder_, module);
    if (method == "gptq") return gptq_tensor(finder_, module);
    const io::JsonPlace config((source_.directory() / "config.json").string());
    throw Failure(config.field("quantization_config")
                      .field("quant_method")
                      .error("gptq or awq, as there are .qweight tensors", method.empty() ? "none" : method, kRestore));
  }

  // Scales of what comes into a product or out of it, or into a cache, where it is to be rounded as the weights are.
  // Here neither is: products take it as it is.
  [[nodiscard]] bool is_of_activations(const std::string& name) const {
    constexpr const char* kScales[] = {".input_scale", ".input_scale_ub", ".activation_scale", ".k_scale",
                                       ".v_scale",     ".output_scale",   ".input_zero_point", ".output_zero_point"};
    for (const char* tail : kScales) {
      if (!name.ends_with(tail)) continue;
      const std::string weight = base_of(name, tail) + ".weight_scale";
      return finder_.quantization() || finder_.has(weight) || finder_.has(weight + "_inv");
    }
    return false;
  }

  // weight f8 [n, k], scale [ceil(n / rows), ceil(k / columns)], or one of the whole: w = q * scale.
  LogicalTensor fp8_block(const std::string& name) {
    LogicalTensor out{.name = name};
    out.data = &finder_.plane(name, {TERN_F8_E4M3, TERN_F8_E5M2});
    out.scale = &finder_.plane(name + "_scale_inv", {TERN_F32, TERN_BF16, TERN_F16});
    finder_.expect_rank(*out.data, 2);
    out.shape = out.data->shape;
    const auto [rows, columns] = fp8_group(out);
    out.scheme = {TERN_PACK_F8_BLOCK,        8, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(columns),
                  *out.scale->storage.dtype, 0};
    return out;
  }

  // Rows and columns that a scale is of.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> fp8_group(const LogicalTensor& tensor) const {
    const auto& quantization = finder_.quantization();
    const auto size = quantization ? quantization->find("weight_block_size") : std::nullopt;
    if (!size && tensor.scale->shape.size() < 2 && element_count(tensor.scale->shape) == 1)
      return {std::max<std::int64_t>(tensor.shape[0], 1), std::max<std::int64_t>(tensor.shape[1], 1)};
    std::int64_t rows = 128;
    std::int64_t columns = 128;
    if (size) {
      const std::vector<std::int64_t> sizes = size->integers();
      if (sizes.size() != 2 || !is_block(sizes[0]) || !is_block(sizes[1])) throw size->wrong("two positive integers");
      rows = sizes[0];
      columns = sizes[1];
    }
    finder_.expect_shape(*tensor.scale, {ceil_div(tensor.shape[0], rows), ceil_div(tensor.shape[1], columns)});
    return {rows, columns};
  }

  // blocks u8 [..., n, k / 32, 16], scales e8m0 [..., n, k / 32].
  LogicalTensor mxfp4(const std::string& name) {
    LogicalTensor out{.name = name};
    out.data = &finder_.plane(name + "_blocks", {TERN_U8});
    out.scale = &finder_.plane(name + "_scales", {TERN_U8});
    std::vector<std::int64_t> shape = out.data->shape;
    if (shape.size() < 3 || shape.back() != 16)
      throw finder_.misfit(out.data->name, "a shape [..., n, k/32, 16]", shape_text(shape));
    shape.pop_back();
    finder_.expect_shape(*out.scale, shape);
    shape.back() *= 32;
    out.shape = shape;
    out.scheme = {TERN_PACK_MXFP4, 4, 1, 32, TERN_U8, 0};
    return out;
  }

  const CheckpointSource& source_;
  PlaneFinder finder_;
  std::vector<LogicalTensor> found_;
};

}  // namespace

std::uint64_t LogicalTensor::stored_bytes() const {
  std::uint64_t bytes = 0;
  for (const SourceTensor* part : {data, scale, zero, permutation, codebook, scale_codebook}) {
    if (part != nullptr) bytes += part->bytes.size();
  }
  return bytes;
}

std::string LogicalTensor::storage_name() const {
  if (scale == nullptr) return data->storage.name;
  if (arrangement == Arrangement::by_rows) return cat("packed_int", scheme.bits);
  if (arrangement == Arrangement::awq_gemv) return "awq_gemv_int4";
  if (scheme.packing == TERN_PACK_GPTQ_INT4) return cat("gptq_int", scheme.bits);
  return std::string(packing_name(scheme.packing));
}

Result<std::vector<LogicalTensor>> logical_tensors(const CheckpointSource& source) {
  return catching([&] { return Gatherer(source).run(); });
}

}  // namespace tern::checkpoint
