#include "checkpoint/gguf_writer.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "base/strings.h"
#include "io/file_writer.h"

namespace tern::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 32;

template <typename T>
void put_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put_value<std::uint64_t>(out, text.size());
  out += text;
}

template <typename T>
std::string scalar(GgufValueType type, T value) {
  std::string out;
  put_value(out, static_cast<std::uint32_t>(type));
  put_value(out, value);
  return out;
}

std::string array_head(GgufValueType element, std::uint64_t count) {
  std::string out = scalar(GgufValueType::array, static_cast<std::uint32_t>(element));
  put_value(out, count);
  return out;
}

template <typename T>
std::string array(GgufValueType element, const std::vector<T>& values) {
  std::string out = array_head(element, values.size());
  for (const T& value : values) put_value(out, value);
  return out;
}

std::uint64_t aligned(std::uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufMetadata::put(const std::string& key, std::string encoded) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    found->encoded = std::move(encoded);
  } else {
    entries_.push_back({key, std::move(encoded)});
  }
}

void GgufMetadata::set(const std::string& key, std::string_view value) {
  std::string encoded;
  put_value(encoded, static_cast<std::uint32_t>(GgufValueType::string));
  put_text(encoded, value);
  put(key, std::move(encoded));
}
void GgufMetadata::set(const std::string& key, bool value) {
  put(key, scalar(GgufValueType::boolean, static_cast<std::uint8_t>(value)));
}
void GgufMetadata::set(const std::string& key, std::uint32_t value) { put(key, scalar(GgufValueType::u32, value)); }
void GgufMetadata::set(const std::string& key, std::int32_t value) { put(key, scalar(GgufValueType::i32, value)); }
void GgufMetadata::set(const std::string& key, std::uint64_t value) { put(key, scalar(GgufValueType::u64, value)); }
void GgufMetadata::set(const std::string& key, float value) { put(key, scalar(GgufValueType::f32, value)); }

void GgufMetadata::set(const std::string& key, const std::vector<std::string>& values) {
  std::string encoded = array_head(GgufValueType::string, values.size());
  for (const std::string& value : values) put_text(encoded, value);
  put(key, std::move(encoded));
}
void GgufMetadata::set(const std::string& key, const std::vector<bool>& values) {
  put(key, array(GgufValueType::boolean, std::vector<std::uint8_t>(values.begin(), values.end())));
}
void GgufMetadata::set(const std::string& key, const std::vector<std::int32_t>& values) {
  put(key, array(GgufValueType::i32, values));
}
void GgufMetadata::set(const std::string& key, const std::vector<float>& values) {
  put(key, array(GgufValueType::f32, values));
}

void GgufMetadata::set(const std::string& key, const GgufValue& value) {
  std::string encoded;
  if (value.is_array()) {
    encoded = array_head(value.element, value.count);
  } else {
    put_value(encoded, static_cast<std::uint32_t>(value.type));
    if (value.type == GgufValueType::string) put_value<std::uint64_t>(encoded, value.raw.size());
  }
  encoded.append(reinterpret_cast<const char*>(value.raw.data()), value.raw.size());
  put(key, std::move(encoded));
}

void GgufMetadata::remove(const std::string& key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

std::string GgufMetadata::encode() const {
  std::string out;
  for (const Entry& entry : entries_) {
    put_text(out, entry.key);
    out += entry.encoded;
  }
  return out;
}

struct GgufWriter::State {
  struct Place {
    std::uint64_t offset = 0;  // in the data, then in the file
    std::uint64_t size = 0;
    std::uint64_t written = 0;
  };
  std::vector<GgufTensorSpec> specs;
  std::vector<Place> places;
  std::unordered_map<std::string, std::size_t> index;
  std::optional<io::FileWriter> file;

  void create(const std::filesystem::path& path, const GgufMetadata& metadata) {
    std::string head;
    put_value<std::uint32_t>(head, 0x46554747);  // "GGUF"
    put_value<std::uint32_t>(head, 3);
    put_value<std::uint64_t>(head, specs.size());
    put_value<std::uint64_t>(head, metadata.size());
    head += metadata.encode();
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const GgufTensorSpec& spec = specs[i];
      const std::string where = cat(path.string(), ": tensor \"", spec.name, "\"");
      const auto size = ggml_tensor_bytes(spec.type, spec.shape);
      if (!size) {
        throw std::logic_error(cat(where, ": rows of ", spec.shape.empty() ? 1 : spec.shape.back(), " in ",
                                   ggml_type_info(spec.type).name, " blocks"));
      }
      if (spec.shape.size() > 4) throw std::logic_error(cat(where, ": ", spec.shape.size(), " dimensions"));
      if (!index.emplace(spec.name, i).second) throw std::logic_error(cat(where, ": the name twice"));
      put_text(head, spec.name);
      put_value<std::uint32_t>(head, static_cast<std::uint32_t>(spec.shape.size()));
      for (auto it = spec.shape.rbegin(); it != spec.shape.rend(); ++it)
        put_value<std::uint64_t>(head, static_cast<std::uint64_t>(*it));
      put_value<std::uint32_t>(head, static_cast<std::uint32_t>(spec.type));
      put_value<std::uint64_t>(head, end);
      places.push_back({end, *size, 0});
      end = aligned(end + *size);
    }
    head.resize(static_cast<std::size_t>(aligned(head.size())));
    for (Place& place : places) place.offset += head.size();
    file = io::FileWriter::create(path).value();
    file->reserve(head.size() + end).value();
    file->append(head).value();
    // The file ends on the alignment, also where a file system has no preallocation.
    if (end != 0) file->write_at(head.size() + end - 1, std::as_bytes(std::span("", 1))).value();
  }
};

GgufWriter::GgufWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

Result<GgufWriter> GgufWriter::create(const std::filesystem::path& path, const GgufMetadata& metadata,
                                      std::vector<GgufTensorSpec> tensors) {
  return catching([&] {
    auto state = std::make_unique<State>();
    state->specs = std::move(tensors);
    state->create(path, metadata);
    return GgufWriter(std::move(state));
  });
}

Status GgufWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) throw std::logic_error(cat("tensor \"", name, "\": not named at the start"));
  State::Place& place = state_->places[found->second];
  if (bytes.size() > place.size - place.written) {
    throw std::logic_error(cat("tensor \"", name, "\": ", place.written + bytes.size(), " bytes for ", place.size));
  }
  auto status = state_->file->write_at(place.offset + place.written, bytes);
  if (status) place.written += bytes.size();
  return status;
}

Status GgufWriter::finish() {
  for (std::size_t i = 0; i < state_->specs.size(); ++i) {
    if (state_->places[i].written == state_->places[i].size) continue;
    throw std::logic_error(cat(state_->file->path(), ": tensor \"", state_->specs[i].name, "\": ",
                               state_->places[i].written, " of ", state_->places[i].size, " bytes were written"));
  }
  return state_->file->finish();
}

}  // namespace tern::checkpoint
