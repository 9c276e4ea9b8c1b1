#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/file_writer.h"
#include "io/json.h"

namespace tern::checkpoint {
namespace {

using Json = io::Json;

struct Placed {
  std::size_t spec = 0;
  std::size_t shard = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size = 0;
  std::uint64_t written = 0;
};

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  if (count == 1) return stem + ".safetensors";
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05zu-of-%05zu.safetensors", number + 1, count);
  return stem + tail;
}

std::string header_of(const Json& tensors) {
  std::string header = tensors.dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // data begins on 8 bytes
  return header;
}

}  // namespace

struct SafetensorsWriter::State {
  std::filesystem::path directory;
  SafetensorsWriteOptions options;
  std::vector<TensorSpec> specs;
  std::vector<Placed> placed;  // one a spec, in its order
  std::vector<io::FileWriter> files;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> index;

  // A tensor larger than a shard gets one of its own.
  std::size_t assign_shards() {
    std::size_t shard = 0;
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const TensorSpec& spec = specs[i];
      const std::string where = cat((directory / options.stem).string(), ": tensor \"", spec.name, "\"");
      const SafetensorsDtype* dtype = find_safetensors_dtype(spec.dtype);
      if (dtype == nullptr) throw std::logic_error(cat(where, ": dtype ", spec.dtype));
      const auto size = safetensors_bytes(*dtype, spec.shape);
      if (!size) throw std::logic_error(cat(where, ": its bytes cannot be counted"));
      if (!index.emplace(spec.name, i).second) throw std::logic_error(cat(where, ": the name twice"));
      if (used != 0 && used + *size > options.max_shard_size) {
        ++shard;
        used = 0;
      }
      used += *size;
      placed.push_back({i, shard, 0, *size, 0});
    }
    return shard + 1;
  }

  void make_file(std::size_t shard) {
    std::vector<Placed*> members;
    for (Placed& one : placed) {
      if (one.shard == shard) members.push_back(&one);
    }
    std::stable_sort(members.begin(), members.end(), [&](const Placed* a, const Placed* b) {
      return find_safetensors_dtype(specs[a->spec].dtype)->bits > find_safetensors_dtype(specs[b->spec].dtype)->bits;
    });
    Json header = Json::object();
    if (!options.metadata.empty()) header["__metadata__"] = options.metadata;
    std::uint64_t end = 0;
    for (Placed* one : members) {
      const TensorSpec& spec = specs[one->spec];
      Json entry = Json::object();
      entry["dtype"] = spec.dtype;
      entry["shape"] = spec.shape;
      entry["data_offsets"] = {end, end + one->size};
      header.append(spec.name, std::move(entry));
      one->offset = end;
      end += one->size;
    }
    const std::string text = header_of(header);
    const std::uint64_t length = text.size();
    for (Placed* one : members) one->offset += sizeof(length) + length;
    io::FileWriter file = io::FileWriter::create(directory / names[shard]).value();
    file.reserve(sizeof(length) + length + end).value();
    file.append(std::as_bytes(std::span(&length, 1))).value();
    file.append(text).value();
    files.push_back(std::move(file));
  }

  std::vector<std::string> finish() {
    for (const Placed& one : placed) {
      if (one.written == one.size) continue;
      throw std::logic_error(cat((directory / names[one.shard]).string(), ": tensor \"", specs[one.spec].name,
                                 "\": ", one.written, " of ", one.size, " bytes were written"));
    }
    for (io::FileWriter& file : files) file.finish().value();
    std::vector<std::string> made = names;
    if (names.size() > 1) {
      Json index_json = Json::object();
      Json map = Json::object();
      std::uint64_t total = 0;
      for (const Placed& one : placed) {
        map.append(specs[one.spec].name, names[one.shard]);
        total += one.size;
      }
      index_json["metadata"] = {{"total_size", total}};
      index_json["weight_map"] = std::move(map);
      made.push_back(options.stem + ".safetensors.index.json");
      io::write_file(directory / made.back(), io::write_json(index_json)).value();
    }
    return made;
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& directory,
                                                    std::vector<TensorSpec> tensors,
                                                    const SafetensorsWriteOptions& options) {
  return catching([&] {
    auto state = std::make_unique<State>();
    state->directory = directory;
    state->options = options;
    state->specs = std::move(tensors);
    const std::size_t shards = state->assign_shards();
    for (std::size_t shard = 0; shard < shards; ++shard) {
      state->names.push_back(shard_name(options.stem, shard, shards));
      state->make_file(shard);
    }
    return SafetensorsWriter(std::move(state));
  });
}

Status SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) throw std::logic_error(cat("tensor \"", name, "\": not named at the start"));
  Placed& one = state_->placed[found->second];
  if (bytes.size() > one.size - one.written) {
    throw std::logic_error(cat("tensor \"", name, "\": ", one.written + bytes.size(), " bytes for ", one.size));
  }
  auto status = state_->files[one.shard].write_at(one.offset + one.written, bytes);
  if (status) one.written += bytes.size();
  return status;
}

Result<std::vector<std::string>> SafetensorsWriter::finish() {
  return catching([&] { return state_->finish(); });
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view all = trim(text);
  double value = 0;
  const auto [end, code] = std::from_chars(all.data(), all.data() + all.size(), value);
  const std::string_view unit = trim(all.substr(static_cast<std::size_t>(end - all.data())));
  struct Unit2 {
    std::string_view name;
    double factor;
  };
  static constexpr Unit2 kUnits[] = {{"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                                     {"TB", 1e12}, {"KIB", 0x1p10}, {"MIB", 0x1p20}, {"GIB", 0x1p30}, {"TIB", 0x1p40}};
  std::string upper(unit);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const auto& [name, factor] : kUnits) {
    if (code == std::errc() && upper == name && value >= 0 && value * factor >= 1 && value * factor < 0x1p62) {
      return static_cast<std::uint64_t>(value * factor);
    }
  }
  return usage_error(cat("\"", text, "\" is not a size"), "write a number and a unit, such as 5GB, 500MB or 2GiB");
}

}  // namespace tern::checkpoint
