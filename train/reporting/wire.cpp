#include "train/reporting/wire.h"

#include <array>
#include <bit>
#include <cstring>

namespace tern::train {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint32_t field, Wire wire) {
  append_varint(out, field << 3 | static_cast<std::uint32_t>(wire));
}

template <typename T>
void append_fixed(std::string& out, std::uint32_t field, Wire wire, T value) {
  append_key(out, field, wire);
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
}

}  // namespace

WireMessage& WireMessage::integer(std::uint32_t field, std::int64_t value) {
  append_key(bytes_, field, Wire::varint);
  append_varint(bytes_, static_cast<std::uint64_t>(value));
  return *this;
}

WireMessage& WireMessage::real(std::uint32_t field, double value) {
  append_fixed(bytes_, field, Wire::fixed64, value);
  return *this;
}

WireMessage& WireMessage::real32(std::uint32_t field, float value) {
  append_fixed(bytes_, field, Wire::fixed32, value);
  return *this;
}

WireMessage& WireMessage::text(std::uint32_t field, std::string_view value) {
  append_key(bytes_, field, Wire::bytes);
  append_varint(bytes_, value.size());
  bytes_ += value;
  return *this;
}

std::optional<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<WireField> WireReader::next() {
  const auto key = varint();
  if (!key) return std::nullopt;
  WireField field{static_cast<std::uint32_t>(*key >> 3), 0, {}};
  const auto wire = static_cast<Wire>(*key & 7);
  std::size_t size = 0;
  if (wire == Wire::varint || wire == Wire::bytes) {
    const auto value = varint();
    if (!value) return std::nullopt;
    if (wire == Wire::varint) {
      field.value = *value;
      return field;
    }
    size = *value;
  } else if (wire == Wire::fixed64 || wire == Wire::fixed32) {
    size = wire == Wire::fixed64 ? 8 : 4;
  } else {
    return std::nullopt;
  }
  if (size > rest_.size()) return std::nullopt;
  if (wire == Wire::bytes) {
    field.bytes = rest_.substr(0, size);
  } else {
    std::memcpy(&field.value, rest_.data(), size);
  }
  rest_.remove_prefix(size);
  return field;
}

std::optional<WireField> find_field(std::string_view message, std::uint32_t number) {
  WireReader reader(message);
  while (auto field = reader.next()) {
    if (field->number == number) return field;
  }
  return std::nullopt;
}

}  // namespace tern::train
