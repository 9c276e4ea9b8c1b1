// Weights whose codes share words of 32 bits: AWQ, GPTQ and compressed-tensors' pack-quantized.
#include <algorithm>

#include "base/strings.h"
#include "checkpoint/gather.h"
#include "checkpoint/packed_words.h"
#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

constexpr const char* kOtherBits = "use a checkpoint of such bits, or the unquantised one";

// Whether each `group` of inputs is the next one, or no input has a group of its own.
bool in_order(const SourceTensor& groups, std::int64_t group) {
  bool in_turn = true, unset = true;
  for (std::int64_t i = 0; i < groups.shape[0]; ++i) {
    const auto at = io::load_as<std::int32_t>(groups.bytes.data() + i * 4);
    in_turn = in_turn && at == i / group;
    unset = unset && at == -1;
  }
  return in_turn || unset;
}

// The group of each input, where they're in another order.
void find_order(PlaneFinder& finder, const std::string& name, LogicalTensor& tensor) {
  const std::int64_t k = tensor.shape[1];
  if (finder.has(name)) {
    tensor.permutation = &finder.plane(name, {TERN_I32});
    finder.expect_shape(*tensor.permutation, {k});
    if (in_order(*tensor.permutation, tensor.scheme.group_cols)) tensor.permutation = nullptr;
  }
  if (tensor.permutation == nullptr) tensor.scheme.flags |= TERN_SCHEME_IN_ORDER;
}

tern_scheme gptq_scheme(std::int64_t bits, std::int64_t group, const SourceTensor& scale, std::int32_t flags) {
  return {TERN_PACK_GPTQ_INT4,
          static_cast<std::int32_t>(bits),
          1,
          static_cast<std::int32_t>(group),
          *scale.storage.dtype,
          flags};
}

// A zero point of 0, less one, is all ones in its bits, and words it was taken from as a whole borrowed from the next.
bool any_borrowed(const SourceTensor& zeros, std::int64_t columns, int bits) {
  const std::uint32_t ones = (1U << bits) - 1U;
  const std::int64_t words = zeros.shape[1];
  for (std::int64_t row = 0; row < zeros.shape[0]; ++row) {
    for (std::int64_t c = 0; c < columns; ++c) {
      if (packed_field(zeros, row * words, 1, c * bits, bits) == ones) return true;
    }
  }
  return false;
}

// qweight i32 [n, k / 8], qzeros i32 [n, words], scales [n, 8 words], of which the first k / group count.
LogicalTensor awq_gemv(PlaneFinder& finder, LogicalTensor out) {
  const std::int64_t n = out.data->shape[0], k = out.data->shape[1] * 8, words = out.zero->shape[1];
  const std::int64_t size = finder.setting("group_size", std::int64_t{128}), group = size == -1 ? k : size;
  if (!is_block(group) || k % group != 0)
    throw finder.misfit(out.data->name, cat("groups of ", group, " that divide the inputs"), cat(k));
  if (k / group > words * 8 || out.zero->shape[0] != n)
    throw finder.misfit(out.zero->name, cat("zero points of ", k / group, " groups of ", n, " outputs"),
                        shape_text(out.zero->shape));
  finder.expect_shape(*out.scale, {n, words * 8});
  out.shape = {n, k};
  out.arrangement = Arrangement::awq_gemv;
  out.scheme = gptq_scheme(4, group, *out.scale, TERN_SCHEME_IN_ORDER);
  return out;
}

// The bits that fill so many words with k codes: of those that a config group says, as the last word may be filled up.
std::int64_t packed_bits(const PlaneFinder& finder, const SourceTensor& data, std::int64_t k) {
  std::vector<std::string> said;
  if (const auto groups = finder.quantization() ? finder.quantization()->find("config_groups") : std::nullopt) {
    for (const auto& member : groups->object()) {
      const auto weights = groups->member(member).find("weights");
      if (!weights || weights->text("type", "int") != "int") continue;
      const std::int64_t bits = weights->integer("num_bits", 8);
      if (bits >= 1 && bits <= 8 && ceil_div(k * bits, 32) == data.shape[1]) return bits;
      said.push_back(cat(bits));
    }
  }
  throw finder.misfit(
      data.name,
      cat("rows of ", k, " codes of the bits that config_groups has (", said.empty() ? "none" : join(said, ", "), ")"),
      cat("rows of ", data.shape[1], " words"));
}

// The three matrices that AWQ and GPTQ have alike.
LogicalTensor word_planes(PlaneFinder& finder, const std::string& module) {
  LogicalTensor out{.name = module + ".weight"};
  out.data = &finder.plane(module + ".qweight", {TERN_I32, TERN_U32});
  out.scale = &finder.plane(module + ".scales", {TERN_F16, TERN_BF16, TERN_F32});
  out.zero = &finder.plane(module + ".qzeros", {TERN_I32, TERN_U32});
  for (const SourceTensor* plane : {out.data, out.scale, out.zero}) finder.expect_rank(*plane, 2);
  return out;
}

}  // namespace

LogicalTensor awq_tensor(PlaneFinder& finder, const std::string& module) {
  LogicalTensor out = word_planes(finder, module);
  const std::int64_t bits = finder.setting("bits", std::int64_t{4});
  if (bits != 4)
    throw Failure(data_error(finder.where(out.data->name), "AWQ of 4 bits", cat(bits),
                             "use a checkpoint of 4 bits, or the unquantised one"));
  if (awq_version(finder) == "gemv") return awq_gemv(finder, std::move(out));
  const std::int64_t k = out.data->shape[0];
  const std::int64_t n = out.scale->shape[1];
  const std::int64_t groups = out.scale->shape[0];
  finder.expect_groups(*out.scale, k, groups);
  if (n % 8 != 0) throw finder.misfit(out.scale->name, "a multiple of 8 columns", cat(n));
  finder.expect_shape(*out.data, {k, n / 8});
  finder.expect_shape(*out.zero, {groups, n / 8});
  out.shape = {n, k};
  out.scheme = {TERN_PACK_AWQ_INT4, 4, 1, static_cast<std::int32_t>(k / groups), *out.scale->storage.dtype, 0};
  return out;
}

// qweight i32 [k * bits / 32, n], qzeros i32 [groups, n * bits / 32], scales [groups, n], g_idx i32 [k].
LogicalTensor gptq_tensor(PlaneFinder& finder, const std::string& module) {
  LogicalTensor out = word_planes(finder, module);
  std::int64_t bits = finder.setting("bits", std::int64_t{4});
  const std::int64_t n = out.scale->shape[1];
  // GPTQModel's `dynamic` has other bits for some modules: their zero points say how many.
  const bool has_own = finder.quantization() && finder.quantization()->find("dynamic");
  if (has_own && n > 0) bits = out.zero->shape[1] * 32 / n;
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    throw Failure(data_error(finder.where(out.data->name), "GPTQ of 2, 3, 4 or 8 bits", cat(bits), kOtherBits));
  const std::int64_t words = out.data->shape[0];
  if (words > (std::int64_t{1} << 40) || words * 32 % bits != 0)
    throw finder.misfit(out.data->name, "whole words", cat(words));
  const std::int64_t k = words * 32 / bits;
  const std::int64_t groups = out.scale->shape[0];
  finder.expect_groups(*out.scale, k, groups);
  finder.expect_shape(*out.data, {words, n});
  if (n * bits % 32 != 0) throw finder.misfit(out.scale->name, "columns that fill whole words", cat(n));
  finder.expect_shape(*out.zero, {groups, n * bits / 32});
  out.shape = {n, k};
  const std::string format = finder.setting("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2")
    throw finder.quantization()->at("checkpoint_format").wrong("gptq or gptq_v2", "use the unquantised checkpoint");
  out.zero_borrows = format == "gptq" && any_borrowed(*out.zero, n, static_cast<int>(bits));
  const bool less_one = format == "gptq" && !out.zero_borrows;
  out.scheme = gptq_scheme(bits, k / groups, *out.scale, less_one ? TERN_SCHEME_ZERO_LESS_ONE : 0);
  find_order(finder, module + ".g_idx", out);
  return out;
}

// weight_packed i32 [n, ceil(k bits / 32)], lowest bits first; weight_scale of the whole [1], of rows [n, 1] or of
// groups [n, k / g]; weight_shape [n, k]; weight_zero_point i32 [ceil(n bits / 32), k / g], packed along the rows.
// Codes and zero points are stored plus 2^(bits - 1), which the difference doesn't see; without zero points they're
// symmetric.
LogicalTensor packed_tensor(PlaneFinder& finder, const std::string& module) {
  const std::string weight = module + ".weight";
  LogicalTensor out{.name = weight};
  out.data = &finder.plane(weight + "_packed", {TERN_I32, TERN_U32});
  out.scale = &finder.plane(weight + "_scale", {TERN_F32, TERN_BF16, TERN_F16});
  finder.expect_rank(*out.data, 2);
  const SourceTensor& shape = finder.plane(weight + "_shape", {TERN_I64, TERN_I32});
  finder.expect_shape(shape, {2});
  for (std::size_t d = 0; d < 2; ++d) {
    const std::byte* at = shape.bytes.data();
    out.shape.push_back(shape.storage.dtype == TERN_I64 ? io::load_as<std::int64_t>(at + d * 8)
                                                        : std::int64_t{io::load_as<std::int32_t>(at + d * 4)});
  }
  const std::int64_t n = out.shape[0], k = out.shape[1];
  if (n != out.data->shape[0] || !is_block(k))
    throw finder.misfit(shape.name, cat(out.data->shape[0], " outputs, and inputs"), shape_text(out.shape));
  const std::int64_t bits = packed_bits(finder, *out.data, k);
  const bool whole = element_count(out.scale->shape).value_or(0) == 1;
  if (!whole) finder.expect_rank(*out.scale, 2);
  const std::int64_t groups = whole ? 1 : out.scale->shape[1];
  finder.expect_groups(*out.scale, k, groups);
  if (!whole) finder.expect_shape(*out.scale, {n, groups});
  if (finder.has(weight + "_zero_point")) {
    out.zero = &finder.plane(weight + "_zero_point", {TERN_I32, TERN_U32});
    finder.expect_shape(*out.zero, {ceil_div(n * bits, 32), groups});
  }
  out.arrangement = Arrangement::by_rows;
  out.scheme = gptq_scheme(bits, k / groups, *out.scale, 0);
  find_order(finder, weight + "_g_idx", out);
  return out;
}

}  // namespace tern::checkpoint
