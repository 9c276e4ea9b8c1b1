#include "checkpoint/dequantize.h"

#include <cstring>
#include <stdexcept>

#include "base/half.h"
#include "base/strings.h"
#include "checkpoint/block_formats.h"
#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

using blocks::Byte;

void expand_f32(const Byte* block, float* out) { std::memcpy(out, block, sizeof(float)); }
void expand_f16(const Byte* block, float* out) {
  *out = fp16_to_float(io::load_as<std::uint16_t>(reinterpret_cast<const std::byte*>(block)));
}
void expand_bf16(const Byte* block, float* out) {
  *out = bf16_to_float(io::load_as<std::uint16_t>(reinterpret_cast<const std::byte*>(block)));
}

blocks::Expand expander(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
      return expand_f32;
    case GgmlType::f16:
      return expand_f16;
    case GgmlType::bf16:
      return expand_bf16;
    case GgmlType::q4_0:
      return blocks::q4_0;
    case GgmlType::q4_1:
      return blocks::q4_1;
    case GgmlType::q5_0:
      return blocks::q5_0;
    case GgmlType::q5_1:
      return blocks::q5_1;
    case GgmlType::q8_0:
      return blocks::q8_0;
    case GgmlType::q2_k:
      return blocks::q2_k;
    case GgmlType::q3_k:
      return blocks::q3_k;
    case GgmlType::q4_k:
      return blocks::q4_k;
    case GgmlType::q5_k:
      return blocks::q5_k;
    case GgmlType::q6_k:
      return blocks::q6_k;
    case GgmlType::tq1_0:
      return blocks::tq1_0;
    case GgmlType::tq2_0:
      return blocks::tq2_0;
    case GgmlType::mxfp4:
      return blocks::mxfp4;
    case GgmlType::nvfp4:
      return blocks::nvfp4;
    case GgmlType::iq2_xxs:
      return blocks::iq2_xxs;
    case GgmlType::iq2_xs:
      return blocks::iq2_xs;
    case GgmlType::iq2_s:
      return blocks::iq2_s;
    case GgmlType::iq3_xxs:
      return blocks::iq3_xxs;
    case GgmlType::iq3_s:
      return blocks::iq3_s;
    case GgmlType::iq1_s:
      return blocks::iq1_s;
    case GgmlType::iq1_m:
      return blocks::iq1_m;
    case GgmlType::iq4_nl:
      return blocks::iq4_nl;
    case GgmlType::iq4_xs:
      return blocks::iq4_xs;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_dequantize(GgmlType type) { return expander(type) != nullptr; }

Status dequantize(GgmlType type, std::span<const std::byte> bytes, std::span<float> values) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  const blocks::Expand expand = expander(type);
  if (expand == nullptr) {
    return data_error(cat("type ", info.name), "a type that can be dequantised", "one that cannot",
                      "convert the file to another type");
  }
  const std::size_t count = bytes.size() / static_cast<std::size_t>(info.block_bytes);
  if (bytes.size() % static_cast<std::size_t>(info.block_bytes) != 0 ||
      values.size() != count * static_cast<std::size_t>(info.block_elements)) {
    throw std::logic_error(cat("dequantize ", info.name, ": ", bytes.size(), " bytes, ", values.size(), " values"));
  }
  const auto* from = reinterpret_cast<const Byte*>(bytes.data());
  float* to = values.data();
  for (std::size_t i = 0; i < count; ++i, from += info.block_bytes, to += info.block_elements) expand(from, to);
  return Unit{};
}

}  // namespace tern::checkpoint
