// The wire format of Protocol Buffers, which the log files of other tools are made of. Written by hand, as the few
// fields that a log needs are of formats that can't change (docs/dependencies.md).
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tern::train {

// A message being written; fields come in the order of the calls.
class WireMessage {
 public:
  WireMessage& integer(std::uint32_t field, std::int64_t value);  // int32, int64, bool, an enum
  WireMessage& real(std::uint32_t field, double value);
  WireMessage& real32(std::uint32_t field, float value);
  WireMessage& text(std::uint32_t field, std::string_view value);  // also bytes
  WireMessage& message(std::uint32_t field, const WireMessage& value) { return text(field, value.bytes_); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// One field of a message.
struct WireField {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // of a varint; of a fixed one its bits
  std::string_view bytes;   // of a text or a message
};

// The fields of a message, up to its end or to what is no field.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}
  [[nodiscard]] std::optional<WireField> next();

 private:
  [[nodiscard]] std::optional<std::uint64_t> varint();
  std::string_view rest_;
};

// The first field of that number; nothing where there is none.
[[nodiscard]] std::optional<WireField> find_field(std::string_view message, std::uint32_t number);

}  // namespace tern::train
