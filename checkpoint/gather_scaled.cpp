// Weights of a byte an element beside scales, and bitsandbytes' own.
#include <algorithm>

#include "base/strings.h"
#include "checkpoint/gather.h"
#include "io/json_field.h"

namespace tern::checkpoint {
namespace {

// Of the blocks that config groups have, the rows and columns of the one whose scales are of that shape.
std::optional<std::pair<std::int64_t, std::int64_t>> block_of(const PlaneFinder& finder, const SourceTensor& data,
                                                              const SourceTensor& scale) {
  const auto groups = finder.quantization() ? finder.quantization()->find("config_groups") : std::nullopt;
  if (!groups || scale.shape.size() != 2) return std::nullopt;
  for (const auto& member : groups->object()) {
    const auto weights = groups->member(member).find("weights");
    const auto block = weights ? weights->find("block_structure") : std::nullopt;
    if (!block) continue;
    const std::vector<std::int64_t> sizes = block->integers();
    if (sizes.size() != 2 || !is_block(sizes[0]) || !is_block(sizes[1])) throw block->wrong("two positive integers");
    if (scale.shape[0] == ceil_div(data.shape[0], sizes[0]) && scale.shape[1] == ceil_div(data.shape[1], sizes[1]))
      return std::pair{sizes[0], sizes[1]};
  }
  return std::nullopt;
}

bool all_zero(const SourceTensor& tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

LogicalTensor scaled_tensor(PlaneFinder& finder, const std::string& weight) {
  if (!finder.has(weight)) throw finder.misfit(weight + "_scale", "int8 or fp8 weights beside it", "none");
  LogicalTensor out{.name = weight};
  out.data = &finder.plane(weight, {TERN_I8, TERN_F8_E4M3});
  out.scale = &finder.plane(weight + "_scale", {TERN_F32, TERN_BF16, TERN_F16});
  finder.expect_rank(*out.data, 2);
  out.shape = out.data->shape;
  const auto scales = element_count(out.scale->shape).value_or(0);
  const auto rows = static_cast<std::uint64_t>(out.shape[0]);
  const auto columns = static_cast<std::uint64_t>(out.shape[1]);
  const auto block = block_of(finder, *out.data, *out.scale);
  const bool whole = scales == 1;
  if (!block && !whole && (rows == 0 || scales == 0 || scales % rows != 0 || columns % (scales / rows) != 0)) {
    throw finder.misfit(out.scale->name, "a scale of the tensor, of each row, or of equal groups",
                        shape_text(out.scale->shape));
  }
  const auto group_rows = block ? static_cast<std::uint64_t>(block->first) : whole ? rows : 1;
  const auto group_columns = block   ? static_cast<std::uint64_t>(block->second)
                             : whole ? columns
                                     : columns / (scales / rows);
  if (const std::string zeros = weight + "_zero_point"; finder.has(zeros)) {
    // Some versions write those of symmetric weights, too.
    out.zero = &finder.plane(zeros, {TERN_I8, TERN_F8_E4M3});
    if (element_count(out.zero->shape) != scales)
      throw finder.misfit(zeros, cat(scales, " zero points"), shape_text(out.zero->shape));
    if (all_zero(*out.zero)) out.zero = nullptr;
  }
  for (const char* extra : {"_shape", "_observer"}) {  // described by the weight itself
    if (finder.has(weight + extra)) finder.take(weight + extra);
  }
  out.scheme = {out.data->storage.dtype == TERN_I8 ? TERN_PACK_ROW_INT8 : TERN_PACK_F8_BLOCK,
                8,
                static_cast<std::int32_t>(std::max<std::uint64_t>(group_rows, 1)),
                static_cast<std::int32_t>(std::max<std::uint64_t>(group_columns, 1)),
                *out.scale->storage.dtype,
                0};
  return out;
}

// weight u8, two codes a byte; absmax of each block; quant_map of 16 levels.
LogicalTensor bnb_4bit_tensor(PlaneFinder& finder, const std::string& weight, const std::string& state_name) {
  LogicalTensor out{.name = weight};
  out.data = &finder.plane(weight, {TERN_U8});
  out.scale = &finder.plane(weight + ".absmax", {TERN_F32, TERN_U8});
  out.codebook = &finder.plane(weight + ".quant_map", {TERN_F32});
  finder.expect_shape(*out.codebook, {16});
  const SourceTensor& state = finder.plane(state_name, {TERN_U8});
  const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
  const io::Json document = io::parse_json(text, finder.where(state.name)).value();
  const io::JsonField json(document, finder.where(state.name), kRefetch);
  const auto block_size = [&](const char* key) {
    const io::JsonField size = json.at(key);
    if (!is_block(size.integer())) throw size.wrong("an integer from 1 to 2^30");
    return size.integer();
  };
  const std::int64_t block = block_size("blocksize");
  for (const io::JsonField& size : json.at("shape").items()) {
    if (size.integer() < 0) throw size.wrong("a size");
    out.shape.push_back(size.integer());
  }
  const auto count = element_count(out.shape);
  if (!count || out.shape.empty() || out.data->bytes.size() != (*count + 1) / 2)
    throw finder.misfit(weight, cat("two codes a byte of ", shape_text(out.shape)),
                        cat(out.data->bytes.size(), " bytes"));
  const std::int64_t blocks = ceil_div(static_cast<std::int64_t>(*count), block);
  finder.expect_shape(*out.scale, {blocks});
  const auto packing = state_name.ends_with("nf4") ? TERN_PACK_NF4 : TERN_PACK_FP4;
  out.scheme = {packing, 4, 1, static_cast<std::int32_t>(block), *out.scale->storage.dtype, 0};
  if (out.scale->storage.dtype == TERN_U8) {
    out.zero = &finder.plane(weight + ".nested_absmax", {TERN_F32});
    out.scale_codebook = &finder.plane(weight + ".nested_quant_map", {TERN_F32});
    finder.expect_shape(*out.scale_codebook, {256});
    out.scale_block = static_cast<int>(block_size("nested_blocksize"));
    finder.expect_shape(*out.zero, {ceil_div(blocks, out.scale_block)});
    out.scale_offset = static_cast<float>(json.at("nested_offset").number());
    out.scheme.flags = TERN_SCHEME_DOUBLE_QUANT;
  }
  return out;
}

// A code is a 127th of the row's largest magnitude.
LogicalTensor bnb_8bit_tensor(PlaneFinder& finder, const std::string& module) {
  LogicalTensor out{.name = module + ".weight"};
  out.data = &finder.plane(out.name, {TERN_I8});
  out.scale = &finder.plane(module + ".SCB", {TERN_F32});
  finder.expect_rank(*out.data, 2);
  out.shape = out.data->shape;
  finder.expect_shape(*out.scale, {out.shape[0]});
  if (const std::string format = module + ".weight_format"; finder.has(format)) {
    if (!all_zero(finder.plane(format, {TERN_U8})))
      throw Failure(data_error(finder.where(format), "0 (rows as they are)", "the order of a GPU's tiles",
                               "save the model again with a bitsandbytes of 2025 or later"));
  }
  out.scale_by = 1.0F / 127.0F;
  out.scheme = {TERN_PACK_ROW_INT8, 8, 1, static_cast<std::int32_t>(std::max<std::int64_t>(out.shape[1], 1)),
                TERN_F32,           0};
  return out;
}

}  // namespace tern::checkpoint
