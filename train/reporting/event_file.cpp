#include "train/reporting/event_file.h"

#include <bit>
#include <cstring>
#include <optional>
#include <span>

#include "io/checksum.h"

namespace tern::train {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename T>
void append_raw(std::string& out, T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint32_t field, Wire wire) {
  append_varint(out, field << 3 | static_cast<std::uint32_t>(wire));
}

void append_bytes(std::string& out, std::uint32_t field, std::string_view value) {
  append_key(out, field, Wire::bytes);
  append_varint(out, value.size());
  out += value;
}

void append_integer(std::string& out, std::uint32_t field, std::uint64_t value) {
  append_key(out, field, Wire::varint);
  append_varint(out, value);
}

// Event.wall_time = 1, Event.step = 2
std::string event_begin(double wall_time, std::int64_t step) {
  std::string out;
  append_key(out, 1, Wire::fixed64);
  append_raw(out, wall_time);
  if (step != 0) append_integer(out, 2, static_cast<std::uint64_t>(step));
  return out;
}

// Event.summary = 5, Summary.value = 1
std::string summary_event(double wall_time, std::int64_t step, std::string_view value) {
  std::string summary;
  append_bytes(summary, 1, value);
  std::string out = event_begin(wall_time, step);
  append_bytes(out, 5, summary);
  return out;
}

// As TensorFlow masks it, so that a checksum of bytes that hold checksums stays a good one.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = io::crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

template <typename T>
T load(std::string_view from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  return value;
}

std::optional<std::uint64_t> take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Event.step; 0 where it isn't told.
std::int64_t step_of(std::string_view event) {
  while (!event.empty()) {
    const auto key = take_varint(event);
    if (!key) return 0;
    std::optional<std::uint64_t> size;
    switch (static_cast<Wire>(*key & 7)) {
      case Wire::varint: {
        const auto value = take_varint(event);
        if (!value || *key >> 3 == 2) return static_cast<std::int64_t>(value.value_or(0));
        continue;
      }
      case Wire::fixed64:
        size = 8;
        break;
      case Wire::bytes:
        size = take_varint(event);
        break;
      case Wire::fixed32:
        size = 4;
        break;
    }
    if (!size || *size > event.size()) return 0;
    event.remove_prefix(*size);
  }
  return 0;
}

}  // namespace

std::string record(std::string_view bytes) {
  std::string out;
  append_raw(out, static_cast<std::uint64_t>(bytes.size()));
  append_raw(out, masked_crc(out));
  out += bytes;
  append_raw(out, masked_crc(bytes));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event_begin(wall_time, 0);
  append_bytes(out, 3, "brain.Event:2");  // Event.file_version
  return out;
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, double value) {
  std::string out;
  append_bytes(out, 1, tag);  // Summary.Value.tag
  append_key(out, 2, Wire::fixed32);
  append_raw(out, static_cast<float>(value));  // Summary.Value.simple_value
  return summary_event(wall_time, step, out);
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text) {
  constexpr std::uint64_t kString = 7;  // DT_STRING
  std::string one;                      // TensorShapeProto.Dim
  append_integer(one, 1, 1);            // .size
  std::string shape;                    // TensorShapeProto
  append_bytes(shape, 2, one);          // .dim
  std::string tensor;                   // TensorProto
  append_integer(tensor, 1, kString);   // .dtype
  append_bytes(tensor, 2, shape);       // .tensor_shape
  append_bytes(tensor, 8, text);        // .string_val
  std::string plugin;                   // SummaryMetadata.PluginData
  append_bytes(plugin, 1, "text");      // .plugin_name
  std::string metadata;                 // SummaryMetadata
  append_bytes(metadata, 1, plugin);    // .plugin_data
  std::string value;                    // Summary.Value
  append_bytes(value, 1, std::string(tag).append("/text_summary"));
  append_bytes(value, 8, tensor);
  append_bytes(value, 9, metadata);
  return summary_event(wall_time, step, value);
}

std::string records_until(std::string_view file, std::int64_t last) {
  constexpr std::size_t kHead = 12, kTail = 4;
  std::string kept;
  while (file.size() >= kHead + kTail) {
    const auto length = load<std::uint64_t>(file);
    if (masked_crc(file.substr(0, 8)) != load<std::uint32_t>(file.substr(8))) break;
    if (length > file.size() - kHead - kTail) break;
    const std::string_view event = file.substr(kHead, length);
    if (masked_crc(event) != load<std::uint32_t>(file.substr(kHead + length))) break;
    if (step_of(event) <= last) kept += file.substr(0, kHead + length + kTail);
    file.remove_prefix(kHead + length + kTail);
  }
  return kept;
}

}  // namespace tern::train
