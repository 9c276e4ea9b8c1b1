#include "checkpoint/gguf.h"

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

std::optional<std::int64_t> integer_at(GgufValueType type, const std::byte* at) {
  switch (type) {
    case GgufValueType::u8:
      return io::load_as<std::uint8_t>(at);
    case GgufValueType::i8:
      return io::load_as<std::int8_t>(at);
    case GgufValueType::u16:
      return io::load_as<std::uint16_t>(at);
    case GgufValueType::i16:
      return io::load_as<std::int16_t>(at);
    case GgufValueType::u32:
      return io::load_as<std::uint32_t>(at);
    case GgufValueType::i32:
      return io::load_as<std::int32_t>(at);
    case GgufValueType::i64:
      return io::load_as<std::int64_t>(at);
    case GgufValueType::u64: {
      const auto value = io::load_as<std::uint64_t>(at);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(GgufValueType type, const std::byte* at) {
  if (type == GgufValueType::f32) return io::load_as<float>(at);
  if (type == GgufValueType::f64) return io::load_as<double>(at);
  if (type == GgufValueType::u64) return static_cast<double>(io::load_as<std::uint64_t>(at));
  if (const auto value = integer_at(type, at)) return static_cast<double>(*value);
  return std::nullopt;
}

template <typename T, typename At>
std::optional<std::vector<T>> elements(const GgufValue& value, At at) {
  const std::size_t step = gguf_scalar_bytes(value.element);
  if (!value.is_array() || step == 0) return std::nullopt;
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(value.count));
  for (std::size_t i = 0; i < value.count; ++i) {
    const auto one = at(value.element, value.raw.data() + i * step);
    if (!one) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

std::string describe(const GgufValue& value) {
  if (value.is_array()) return cat("an array of ", value.count, " ", gguf_value_type_name(value.element));
  if (const auto number = value.number()) return cat(gguf_value_type_name(value.type), " ", *number);
  return std::string(gguf_value_type_name(value.type));
}

template <typename T, typename U>
Result<T> typed(const Gguf& file, std::string_view key, std::string_view expected,
                std::optional<U> (GgufValue::*get)() const, const T* otherwise = nullptr) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) {
    if (otherwise != nullptr) return *otherwise;
    return data_error(cat(file.path(), ": key \"", key, "\""), std::string(expected), "no such key",
                      "convert the model to GGUF again, with a current converter");
  }
  if (auto got = (value->*get)()) return T(*std::move(got));
  return data_error(cat(file.path(), ": key \"", key, "\""), std::string(expected), describe(*value),
                    "convert the model to GGUF again, with a current converter");
}

}  // namespace

std::string_view gguf_value_type_name(GgufValueType type) { return kTypeNames[static_cast<std::uint32_t>(type)]; }

std::size_t gguf_scalar_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::u8:
    case GgufValueType::i8:
    case GgufValueType::boolean:
      return 1;
    case GgufValueType::u16:
    case GgufValueType::i16:
      return 2;
    case GgufValueType::u32:
    case GgufValueType::i32:
    case GgufValueType::f32:
      return 4;
    case GgufValueType::u64:
    case GgufValueType::i64:
    case GgufValueType::f64:
      return 8;
    default:
      return 0;
  }
}

std::optional<std::int64_t> GgufValue::integer() const {
  return is_array() ? std::nullopt : integer_at(type, raw.data());
}
std::optional<double> GgufValue::number() const { return is_array() ? std::nullopt : number_at(type, raw.data()); }

std::optional<bool> GgufValue::boolean() const {
  if (type != GgufValueType::boolean) return std::nullopt;
  return raw[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::text() const {
  if (type != GgufValueType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
}

std::optional<std::vector<std::int64_t>> GgufValue::integers() const {
  return elements<std::int64_t>(*this, integer_at);
}
std::optional<std::vector<double>> GgufValue::numbers() const { return elements<double>(*this, number_at); }

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (!is_array() || element != GgufValueType::string) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(static_cast<std::size_t>(count));
  const std::byte* at = raw.data();
  for (std::uint64_t i = 0; i < count; ++i) {  // lengths were checked when the file was opened
    const auto size = static_cast<std::size_t>(io::load_as<std::uint64_t>(at));
    out.emplace_back(reinterpret_cast<const char*>(at) + sizeof(std::uint64_t), size);
    at += sizeof(std::uint64_t) + size;
  }
  return out;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = key_index_.find(std::string(key));
  return found == key_index_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* Gguf::tensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::int64_t> Gguf::integer(std::string_view key) const {
  return typed<std::int64_t>(*this, key, "an integer", &GgufValue::integer);
}
Result<double> Gguf::number(std::string_view key) const {
  return typed<double>(*this, key, "a number", &GgufValue::number);
}
Result<bool> Gguf::boolean(std::string_view key) const {
  return typed<bool>(*this, key, "a boolean", &GgufValue::boolean);
}
Result<std::string> Gguf::text(std::string_view key) const {
  return typed<std::string>(*this, key, "a string", &GgufValue::text);
}
Result<std::vector<std::string_view>> Gguf::texts(std::string_view key) const {
  return typed<std::vector<std::string_view>>(*this, key, "an array of strings", &GgufValue::texts);
}
Result<std::int64_t> Gguf::integer_or(std::string_view key, std::int64_t otherwise) const {
  return typed<std::int64_t>(*this, key, "an integer", &GgufValue::integer, &otherwise);
}
Result<double> Gguf::number_or(std::string_view key, double otherwise) const {
  return typed<double>(*this, key, "a number", &GgufValue::number, &otherwise);
}
Result<bool> Gguf::boolean_or(std::string_view key, bool otherwise) const {
  return typed<bool>(*this, key, "a boolean", &GgufValue::boolean, &otherwise);
}
Result<std::string> Gguf::text_or(std::string_view key, std::string otherwise) const {
  return typed<std::string>(*this, key, "a string", &GgufValue::text, &otherwise);
}

Status Gguf::intact() const {
  for (const auto& file : files_) {
    if (auto status = file->intact(); !status) return status;
  }
  return Unit{};
}

}  // namespace tern::checkpoint
