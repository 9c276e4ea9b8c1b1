#include "checkpoint/packed_words.h"

#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

// A zero point that was stored less one by taking one of every field of a word at once: so it's put back.
std::int32_t with_one(const SourceTensor& zero, std::int64_t first_word, std::int64_t position, int bits) {
  if (bits == 3) return static_cast<std::int32_t>((packed_field(zero, first_word, 1, position, 3) + 1U) & 7U);
  const std::uint32_t mask = (1U << bits) - 1U, ones = ~0U / mask;
  const auto word = io::load_as<std::uint32_t>(zero.bytes.data() + (first_word + position / 32) * 4);
  return static_cast<std::int32_t>((word + ones) >> (position % 32) & mask);
}

}  // namespace

std::uint32_t packed_field(const SourceTensor& tensor, std::int64_t first_word, std::int64_t stride,
                           std::int64_t position, int bits) {
  const std::int64_t word = position / 32;
  const int shift = static_cast<int>(position % 32);
  const auto load = [&](std::int64_t index) {
    return io::load_as<std::uint32_t>(tensor.bytes.data() + (first_word + index * stride) * 4);
  };
  std::uint64_t value = load(word) >> shift;
  if (shift + bits > 32) value |= static_cast<std::uint64_t>(load(word + 1)) << (32 - shift);
  return static_cast<std::uint32_t>(value) & ((1U << bits) - 1);
}

std::int32_t zero_point(const LogicalTensor& tensor, std::int64_t output, std::int64_t group) {
  const int bits = tensor.scheme.bits;
  if (tensor.zero == nullptr) return 1 << (bits - 1);
  const SourceTensor& zero = *tensor.zero;
  if (tensor.scheme.packing == TERN_PACK_ROW_INT8)
    return 128 + static_cast<std::int8_t>(zero.bytes[static_cast<std::size_t>(scale_index(tensor, output, group))]);
  switch (tensor.arrangement) {
    case Arrangement::by_rows:
      return static_cast<std::int32_t>(packed_field(zero, group, zero.shape[1], output * bits, bits));
    case Arrangement::awq_gemv:
      return static_cast<std::int32_t>(packed_field(zero, output * zero.shape[1], 1, group * bits, bits));
    default:
      break;
  }
  const std::int64_t row = group * zero.shape[1];
  if (tensor.zero_borrows) return with_one(zero, row, output * bits, bits);
  const int less = (tensor.scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0 ? 1 : 0;
  return static_cast<std::int32_t>(packed_field(zero, row, 1, output * bits, bits)) + less;
}

std::int64_t scale_index(const LogicalTensor& tensor, std::int64_t output, std::int64_t group) {
  const SourceTensor& scale = *tensor.scale;
  const bool across = tensor.scheme.packing == TERN_PACK_GPTQ_INT4 && tensor.arrangement == Arrangement::usual;
  if (across) return group * scale.shape[1] + output;
  if (element_count(scale.shape).value_or(0) == 1) return 0;
  const std::int64_t per_row = scale.shape.size() == 2 ? scale.shape[1] : 1;
  return output * per_row + group;
}

}  // namespace tern::checkpoint
