#include "train/reporting/event_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "io/checksum.h"
#include "train/reporting/wire.h"

namespace tern::train {
namespace {

// Event.wall_time = 1, Event.step = 2
WireMessage event_begin(double wall_time, std::int64_t step) {
  WireMessage event;
  event.real(1, wall_time);
  if (step != 0) event.integer(2, step);
  return event;
}

// Event.summary = 5, Summary.value = 1
std::string summary_event(double wall_time, std::int64_t step, const WireMessage& value) {
  return event_begin(wall_time, step).message(5, WireMessage().message(1, value)).bytes();
}

template <typename T>
void append_raw(std::string& out, T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
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

// Event.step; 0 where it isn't told.
std::int64_t step_of(std::string_view event) {
  const auto step = find_field(event, 2);
  return step ? static_cast<std::int64_t>(step->value) : 0;
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
  return event_begin(wall_time, 0).text(3, "brain.Event:2").bytes();  // Event.file_version
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, double value) {
  WireMessage out;  // Summary.Value: tag, simple_value
  out.text(1, tag).real32(2, static_cast<float>(value));
  return summary_event(wall_time, step, out);
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text) {
  constexpr std::int64_t kString = 7;  // DT_STRING
  WireMessage shape;                   // TensorShapeProto: dim, whose size is 1
  shape.message(2, WireMessage().integer(1, 1));
  WireMessage tensor;  // TensorProto: dtype, tensor_shape, string_val
  tensor.integer(1, kString).message(2, shape).text(8, text);
  WireMessage metadata;  // SummaryMetadata: plugin_data, whose plugin_name is this
  metadata.message(1, WireMessage().text(1, "text"));
  WireMessage value;  // Summary.Value: tag, tensor, metadata
  value.text(1, std::string(tag).append("/text_summary")).message(8, tensor).message(9, metadata);
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
