#include "checkpoint/logical_tensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/dtype.h"
#include "base/strings.h"
#include "io/byte_reader.h"
#include "io/json_field.h"

namespace tern::checkpoint {
namespace {

// The mend of planes that do not fit each other.
constexpr const char* kRefetch = "fetch the checkpoint again, or use the unquantised one";
constexpr const char* kRestore = "restore the model's config.json";

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
bool is_block(std::int64_t size) { return size > 0 && size <= (std::int64_t{1} << 30); }

// Gathers the planes of one checkpoint; consumed names do not appear on their own.
class Gatherer {
 public:
  explicit Gatherer(const CheckpointSource& source) : source_(source) {
    if (source.config() == nullptr) return;
    quantization_ = io::JsonField(*source.config(), (source.directory() / "config.json").string(), kRestore)
                        .find("quantization_config");
    if (quantization_) method_ = quantization_->text("quant_method", "");
  }

  std::vector<LogicalTensor> run() {
    check_method();
    for (const SourceTensor& tensor : source_.tensors()) gather(tensor);
    std::vector<LogicalTensor> all;
    for (const SourceTensor& tensor : source_.tensors()) {
      if (consumed_.contains(tensor.name)) continue;
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
    const std::string& name = tensor.name;
    if (name.ends_with(".weight_scale_inv")) return fp8_block(base_of(name, "_scale_inv"));
    if (name.ends_with(".weight_scale")) return compressed(base_of(name, "_scale"));
    if (name.ends_with(".qweight"))
      return method_ == "awq" ? awq(base_of(name, ".qweight")) : gptq(base_of(name, ".qweight"));
    if (name.ends_with(".quant_state.bitsandbytes__nf4")) return nf4(base_of(name, ".quant_state.bitsandbytes__nf4"));
    if (name.ends_with("_blocks") && source_.find(base_of(name, "_blocks") + "_scales") != nullptr)
      return mxfp4(base_of(name, "_blocks"));
    if (is_of_activations(name)) consumed_.insert(name);
  }

  // Scales of what comes into a product, or into a cache, where it is to be rounded as the weights are. Here neither
  // is: products take it as it is.
  [[nodiscard]] bool is_of_activations(const std::string& name) const {
    constexpr const char* kScales[] = {".input_scale", ".input_scale_ub", ".activation_scale", ".k_scale", ".v_scale"};
    for (const char* tail : kScales) {
      if (!name.ends_with(tail)) continue;
      const std::string weight = base_of(name, tail) + ".weight_scale";
      return quantization_ || source_.find(weight) != nullptr || source_.find(weight + "_inv") != nullptr;
    }
    return false;
  }

  static std::string base_of(const std::string& name, std::string_view tail) {
    return name.substr(0, name.size() - tail.size());
  }

  [[nodiscard]] std::string where(const std::string& name) const {
    return cat(source_.path().string(), ": tensor \"", name, "\"");
  }

  // A plane with one of the dtypes; throws where it is absent or of another.
  const SourceTensor& plane(const std::string& name, std::initializer_list<tern_dtype> dtypes) {
    const SourceTensor* tensor = source_.require(name).value();
    for (std::int64_t size : tensor->shape) {  // an empty tensor may claim anything; what follows multiplies sizes
      if (size > std::numeric_limits<std::int32_t>::max())
        throw Failure(data_error(where(name), "dimensions below 2^31", cat(size), kRefetch));
    }
    std::vector<std::string> names;
    for (tern_dtype dtype : dtypes) {
      if (tensor->storage.dtype == dtype) {
        consumed_.insert(name);
        return *tensor;
      }
      names.emplace_back(dtype_name(dtype));
    }
    throw Failure(data_error(where(name), cat("dtype ", join(names, " or ")), tensor->storage.name, kRefetch));
  }

  void expect_shape(const SourceTensor& tensor, const std::vector<std::int64_t>& shape) const {
    if (tensor.shape != shape)
      throw Failure(
          data_error(where(tensor.name), cat("shape ", shape_text(shape)), shape_text(tensor.shape), kRefetch));
  }

  void expect_rank(const SourceTensor& tensor, std::size_t rank) const {
    if (tensor.shape.size() != rank)
      throw Failure(data_error(where(tensor.name), cat(rank, " dimensions"), shape_text(tensor.shape), kRefetch));
  }

  [[nodiscard]] std::int64_t setting(const char* key, std::int64_t otherwise) const {
    return quantization_ ? quantization_->integer(key, otherwise) : otherwise;
  }

  // weight f8 [n, k], scale [ceil(n / rows), ceil(k / columns)], or one of the whole: w = q * scale.
  void fp8_block(const std::string& name) {
    LogicalTensor out{.name = name};
    out.data = &plane(name, {TERN_F8_E4M3, TERN_F8_E5M2});
    out.scale = &plane(name + "_scale_inv", {TERN_F32, TERN_BF16, TERN_F16});
    expect_rank(*out.data, 2);
    out.shape = out.data->shape;
    const auto [rows, columns] = fp8_group(out);
    out.scheme = {TERN_PACK_F8_BLOCK,        8, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(columns),
                  *out.scale->storage.dtype, 0};
    found_.push_back(std::move(out));
  }

  // Rows and columns that a scale is of.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> fp8_group(const LogicalTensor& tensor) const {
    const auto size = quantization_ ? quantization_->find("weight_block_size") : std::nullopt;
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
    expect_shape(*tensor.scale, {ceil_div(tensor.shape[0], rows), ceil_div(tensor.shape[1], columns)});
    return {rows, columns};
  }

  // compressed-tensors: weight i8 or f8 [n, k], scale of the whole tensor, of each row, or of groups of a row.
  void compressed(const std::string& name) {
    if (source_.find(name) == nullptr) {
      throw Failure(data_error(where(name + "_scale"), "int8 or fp8 weights beside it", "none",
                               "packed int4 of compressed-tensors is not read"));
    }
    LogicalTensor out{.name = name};
    out.data = &plane(name, {TERN_I8, TERN_F8_E4M3});
    out.scale = &plane(name + "_scale", {TERN_F32, TERN_BF16, TERN_F16});
    expect_rank(*out.data, 2);
    out.shape = out.data->shape;
    const auto scales = element_count(out.scale->shape).value_or(0);
    const auto rows = static_cast<std::uint64_t>(out.shape[0]);
    const auto columns = static_cast<std::uint64_t>(out.shape[1]);
    const bool whole = scales == 1;
    if (!whole && (rows == 0 || scales == 0 || scales % rows != 0 || columns % (scales / rows) != 0)) {
      throw Failure(data_error(where(out.scale->name), "a scale of the tensor, of each row, or of equal groups",
                               shape_text(out.scale->shape), kRefetch));
    }
    const auto group_rows = whole ? rows : 1;
    const auto group_columns = whole ? columns : columns / (scales / rows);
    if (source_.find(name + "_zero_point") != nullptr) {
      out.zero = &plane(name + "_zero_point", {TERN_I8});
      if (element_count(out.zero->shape) != scales) {
        throw Failure(
            data_error(where(out.zero->name), cat(scales, " zero points"), shape_text(out.zero->shape), kRefetch));
      }
    }
    for (const char* extra : {"_shape", "_observer"}) {  // described by the weight itself
      if (source_.find(name + extra) != nullptr) consumed_.insert(name + extra);
    }
    out.scheme = {out.data->storage.dtype == TERN_I8 ? TERN_PACK_ROW_INT8 : TERN_PACK_F8_BLOCK,
                  8,
                  static_cast<std::int32_t>(std::max<std::uint64_t>(group_rows, 1)),
                  static_cast<std::int32_t>(std::max<std::uint64_t>(group_columns, 1)),
                  *out.scale->storage.dtype,
                  0};
    found_.push_back(std::move(out));
  }

  // qweight i32 [k, n / 8], qzeros i32 [k / g, n / 8], scales [k / g, n]: w[n, k] = (q - z) * s.
  void awq(const std::string& module) {
    LogicalTensor out{.name = module + ".weight"};
    out.data = &plane(module + ".qweight", {TERN_I32, TERN_U32});
    out.scale = &plane(module + ".scales", {TERN_F16, TERN_BF16, TERN_F32});
    out.zero = &plane(module + ".qzeros", {TERN_I32, TERN_U32});
    expect_rank(*out.data, 2);
    expect_rank(*out.scale, 2);
    const std::int64_t bits = setting("bits", 4);
    if (bits != 4)
      throw Failure(data_error(where(out.data->name), "AWQ of 4 bits", cat(bits),
                               "use a checkpoint of 4 bits, or the unquantised one"));
    const std::int64_t k = out.data->shape[0];
    const std::int64_t n = out.scale->shape[1];
    const std::int64_t groups = out.scale->shape[0];
    expect_groups(*out.scale, k, groups);
    if (n % 8 != 0) throw Failure(data_error(where(out.scale->name), "a multiple of 8 columns", cat(n), kRefetch));
    expect_shape(*out.data, {k, n / 8});
    expect_shape(*out.zero, {groups, n / 8});
    out.shape = {n, k};
    out.scheme = {TERN_PACK_AWQ_INT4, 4, 1, static_cast<std::int32_t>(k / groups), *out.scale->storage.dtype, 0};
    found_.push_back(std::move(out));
  }

  void expect_groups(const SourceTensor& scale, std::int64_t k, std::int64_t groups) const {
    if (k > 0 && groups > 0 && k % groups == 0) return;
    throw Failure(data_error(where(scale.name), cat("groups that divide ", k, " inputs"), cat(groups), kRefetch));
  }

  // qweight i32 [k * bits / 32, n], qzeros i32 [groups, n * bits / 32], scales [groups, n], g_idx i32 [k].
  void gptq(const std::string& module) {
    if (method_ != "gptq") {
      const io::JsonPlace config((source_.directory() / "config.json").string());
      throw Failure(
          config.field("quantization_config")
              .field("quant_method")
              .error("gptq or awq, as there are .qweight tensors", method_.empty() ? "none" : method_, kRestore));
    }
    LogicalTensor out{.name = module + ".weight"};
    out.data = &plane(module + ".qweight", {TERN_I32, TERN_U32});
    out.scale = &plane(module + ".scales", {TERN_F16, TERN_BF16, TERN_F32});
    out.zero = &plane(module + ".qzeros", {TERN_I32, TERN_U32});
    expect_rank(*out.data, 2);
    expect_rank(*out.scale, 2);
    const std::int64_t bits = setting("bits", 4);
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
      throw Failure(data_error(where(out.data->name), "GPTQ of 2, 3, 4 or 8 bits", cat(bits),
                               "use a checkpoint of such bits, or the unquantised one"));
    const std::int64_t words = out.data->shape[0];
    if (words > (std::int64_t{1} << 40) || words * 32 % bits != 0)
      throw Failure(data_error(where(out.data->name), "whole words", cat(words), kRefetch));
    const std::int64_t k = words * 32 / bits;
    const std::int64_t n = out.scale->shape[1];
    const std::int64_t groups = out.scale->shape[0];
    expect_groups(*out.scale, k, groups);
    expect_shape(*out.data, {words, n});
    if (n * bits % 32 != 0)
      throw Failure(data_error(where(out.scale->name), "columns that fill whole words", cat(n), kRefetch));
    expect_shape(*out.zero, {groups, n * bits / 32});
    if (source_.find(module + ".g_idx") != nullptr) {
      out.permutation = &plane(module + ".g_idx", {TERN_I32});
      expect_shape(*out.permutation, {k});
      if (in_order(*out.permutation, k / groups)) out.permutation = nullptr;
    }
    const bool second = quantization_ && quantization_->text("checkpoint_format", "") == "gptq_v2";
    out.shape = {n, k};
    out.scheme = {TERN_PACK_GPTQ_INT4,
                  static_cast<std::int32_t>(bits),
                  1,
                  static_cast<std::int32_t>(k / groups),
                  *out.scale->storage.dtype,
                  (out.permutation == nullptr ? TERN_SCHEME_IN_ORDER : 0) | (second ? 0 : TERN_SCHEME_ZERO_LESS_ONE)};
    found_.push_back(std::move(out));
  }

  // Whether each `group` of inputs is the next one.
  static bool in_order(const SourceTensor& groups, std::int64_t group) {
    for (std::int64_t i = 0; i < groups.shape[0]; ++i) {
      if (io::load_as<std::int32_t>(groups.bytes.data() + i * 4) != i / group) return false;
    }
    return true;
  }

  // weight u8, two codes a byte; absmax of each block; quant_map of 16 levels; the state is JSON in a tensor of bytes.
  void nf4(const std::string& name) {
    LogicalTensor out{.name = name};
    out.data = &plane(name, {TERN_U8});
    out.scale = &plane(name + ".absmax", {TERN_F32, TERN_U8});
    out.codebook = &plane(name + ".quant_map", {TERN_F32});
    expect_shape(*out.codebook, {16});
    const SourceTensor& state = plane(name + ".quant_state.bitsandbytes__nf4", {TERN_U8});
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    const io::Json document = io::parse_json(text, where(state.name)).value();
    const io::JsonField json(document, where(state.name), kRefetch);
    const auto block_of = [&](const char* key) {
      const io::JsonField size = json.at(key);
      if (!is_block(size.integer())) throw size.wrong("an integer from 1 to 2^30");
      return size.integer();
    };
    const std::int64_t block = block_of("blocksize");
    for (const io::JsonField& size : json.at("shape").items()) {
      if (size.integer() < 0) throw size.wrong("a size");
      out.shape.push_back(size.integer());
    }
    const auto count = element_count(out.shape);
    if (!count || out.shape.empty() || out.data->bytes.size() != (*count + 1) / 2) {
      throw Failure(data_error(where(name), cat("two codes a byte of ", shape_text(out.shape)),
                               cat(out.data->bytes.size(), " bytes"), kRefetch));
    }
    const std::int64_t blocks = ceil_div(static_cast<std::int64_t>(*count), block);
    expect_shape(*out.scale, {blocks});
    out.scheme = {TERN_PACK_NF4, 4, 1, static_cast<std::int32_t>(block), *out.scale->storage.dtype, 0};
    if (out.scale->storage.dtype == TERN_U8) {
      out.zero = &plane(name + ".nested_absmax", {TERN_F32});
      out.scale_codebook = &plane(name + ".nested_quant_map", {TERN_F32});
      expect_shape(*out.scale_codebook, {256});
      out.scale_block = static_cast<int>(block_of("nested_blocksize"));
      expect_shape(*out.zero, {ceil_div(blocks, out.scale_block)});
      out.scale_offset = static_cast<float>(json.at("nested_offset").number());
      out.scheme.flags = TERN_SCHEME_DOUBLE_QUANT;
    }
    found_.push_back(std::move(out));
  }

  // blocks u8 [..., n, k / 32, 16], scales e8m0 [..., n, k / 32].
  void mxfp4(const std::string& name) {
    LogicalTensor out{.name = name};
    out.data = &plane(name + "_blocks", {TERN_U8});
    out.scale = &plane(name + "_scales", {TERN_U8});
    std::vector<std::int64_t> shape = out.data->shape;
    if (shape.size() < 3 || shape.back() != 16)
      throw Failure(data_error(where(out.data->name), "a shape [..., n, k/32, 16]", shape_text(shape), kRefetch));
    shape.pop_back();
    expect_shape(*out.scale, shape);
    shape.back() *= 32;
    out.shape = shape;
    out.scheme = {TERN_PACK_MXFP4, 4, 1, 32, TERN_U8, 0};
    found_.push_back(std::move(out));
  }

  // A quantised checkpoint of a method that nothing here recognised must not pass for a plain one.
  void check_method() const {
    static const std::set<std::string> kKnown = {"fp8",      "fbgemm_fp8",   "awq",  "gptq", "compressed-tensors",
                                                 "modelopt", "bitsandbytes", "mxfp4"};
    if (method_.empty() || kKnown.contains(method_)) return;
    throw quantization_->at("quant_method")
        .wrong("fp8, fbgemm_fp8, awq, gptq, compressed-tensors, modelopt, bitsandbytes or mxfp4",
               "use the unquantised checkpoint");
  }

  const CheckpointSource& source_;
  std::optional<io::JsonField> quantization_;
  std::string method_;
  std::set<std::string> consumed_;
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
  return std::string(packing_name(scheme.packing));
}

Result<std::vector<LogicalTensor>> logical_tensors(const CheckpointSource& source) {
  return catching([&] { return Gatherer(source).run(); });
}

}  // namespace tern::checkpoint
