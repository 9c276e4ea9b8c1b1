#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "base/strings.h"
#include "checkpoint/ggml_types.h"
#include "io/byte_reader.h"
#include "io/json_field.h"

namespace tern::checkpoint {
namespace {

using Json = io::Json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's bound

constexpr std::array kDtypes = std::to_array<SafetensorsDtype>({
    {"F64", 64, TERN_F64},
    {"F32", 32, TERN_F32},
    {"F16", 16, TERN_F16},
    {"BF16", 16, TERN_BF16},
    {"I64", 64, TERN_I64},
    {"I32", 32, TERN_I32},
    {"I16", 16, TERN_I16},
    {"I8", 8, TERN_I8},
    {"U64", 64, TERN_U64},
    {"U32", 32, TERN_U32},
    {"U16", 16, TERN_U16},
    {"U8", 8, TERN_U8},
    {"BOOL", 8, TERN_BOOL},
    {"F8_E4M3", 8, TERN_F8_E4M3},
    {"F8_E5M2", 8, TERN_F8_E5M2},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
});

// A shard's name stays in its directory: no separator, no "..".
bool plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

std::span<const SafetensorsDtype> safetensors_dtypes() { return kDtypes; }

const SafetensorsDtype* find_safetensors_dtype(std::string_view name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& row) { return row.name == name; });
  return found == kDtypes.end() ? nullptr : found;
}

const SafetensorsDtype& safetensors_dtype(tern_dtype dtype) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& row) { return row.dtype == dtype; });
  if (found == kDtypes.end()) throw std::logic_error(cat("safetensors has no dtype ", dtype));
  return *found;
}

std::optional<std::uint64_t> safetensors_bytes(const SafetensorsDtype& dtype, std::span<const std::int64_t> shape) {
  const auto count = element_count(shape);
  std::uint64_t bits = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<std::uint64_t>(dtype.bits), &bits) || bits % 8 != 0) {
    return std::nullopt;
  }
  return bits / 8;
}

class SafetensorsParser {
 public:
  static Safetensors open(const std::filesystem::path& path) {
    SafetensorsParser parser;
    parser.read_file(path);
    return parser.finish();
  }

  static Safetensors parse(const std::string& name, std::span<const std::byte> bytes) {
    SafetensorsParser parser;
    parser.read(name, bytes);
    return parser.finish();
  }

  static Safetensors open_directory(const std::filesystem::path& directory, const std::string& stem) {
    const std::filesystem::path single = directory / (stem + ".safetensors");
    const std::filesystem::path index = directory / (stem + ".safetensors.index.json");
    std::error_code ignored;
    if (!std::filesystem::exists(index, ignored)) return open(single);
    SafetensorsParser parser;
    parser.read_index(directory, index);
    return parser.finish();
  }

 private:
  Safetensors finish() {
    if (auto status = out_.intact(); !status) throw Failure(status.error());
    return std::move(out_);
  }

  void read_index(const std::filesystem::path& directory, const std::filesystem::path& index) {
    const Json json = io::read_json_file(index).value();
    const io::JsonField names = io::JsonField(json, index.string(), io::kCorruptFile).at("weight_map");
    const auto map = names.object();
    if (map.empty()) throw names.wrong("tensor names and their files");
    std::set<std::string> shards;
    for (const Json::Member& one : map) {
      if (!one.value.is_string() || !plain_file_name(one.value.text()))
        throw names.member(one).wrong("a file name inside the directory");
      shards.insert(one.value.text());
    }
    for (const std::string& shard : shards) read_file(directory / shard);
    for (const auto& [tensor, file] : map) {
      const auto found = out_.index_.find(tensor);
      const auto& shard = file.text();
      if (found != out_.index_.end() &&
          out_.files_[out_.tensors_[found->second].file]->path() == (directory / shard).string()) {
        continue;
      }
      throw Failure(data_error(cat((directory / shard).string(), ": tensor \"", tensor, "\""),
                               "a tensor that the index names", "none",
                               "the index and the shards are of different checkpoints: fetch them again"));
    }
  }

  void read_file(const std::filesystem::path& path) {
    const std::shared_ptr<const io::MappedFile> file = io::MappedFile::open(path).value();
    out_.files_.push_back(file);
    read(file->path(), file->bytes());
  }

  void read(const std::string& path, std::span<const std::byte> bytes) {
    io::ByteReader in(bytes, path);
    const auto length = in.value<std::uint64_t>("the header's length");
    if (length > kMaxHeader) {
      throw Failure(data_error(path, cat("a header of at most ", kMaxHeader, " bytes"), cat(length),
                               "is it a safetensors file?"));
    }
    const auto header = in.take(length, "the header");
    const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
    if (!text.starts_with('{'))
      throw Failure(data_error(path, "a header that starts with {", "other bytes", "name a .safetensors file"));
    const Json json = io::parse_json(text, path).value();
    const auto data = bytes.subspan(in.offset());
    const std::size_t first = out_.tensors_.size();
    for (const auto& [name, value] : json.items()) {
      if (name == "__metadata__") {
        read_metadata(value, path);
      } else {
        read_tensor(name, value, data, path);
      }
    }
    order_and_check(first, data, path);
  }

  void read_metadata(const Json& value, const std::string& path) {
    const io::JsonField metadata(value, cat(path, ": __metadata__"), io::kCorruptFile);
    for (const Json::Member& one : metadata.object()) out_.metadata_[one.key] = metadata.member(one).text();
  }

  void read_tensor(const std::string& name, const Json& value, std::span<const std::byte> data,
                   const std::string& path) {
    const std::string where = cat(path, ": tensor \"", name, "\"");
    const io::JsonField fields(value, where, io::kCorruptFile);
    SafetensorsTensor tensor;
    tensor.name = name;
    tensor.file = out_.files_.empty() ? 0 : out_.files_.size() - 1;
    const io::JsonField dtype = fields.at("dtype");
    tensor.dtype = find_safetensors_dtype(dtype.text());
    if (tensor.dtype == nullptr)
      throw dtype.wrong("a dtype of safetensors", "convert the file to a dtype of the safetensors format");
    for (const io::JsonField& size : fields.at("shape").items()) {
      if (size.natural() > (std::uint64_t{1} << 62)) throw size.wrong("a dimension below 2^62");
      tensor.shape.push_back(size.json().get<std::int64_t>());
    }
    const std::vector<io::JsonField> offsets = fields.at("data_offsets").items();
    if (offsets.size() != 2) throw fields.at("data_offsets").wrong("two offsets");
    const std::uint64_t begin = offsets[0].natural();
    const std::uint64_t end = offsets[1].natural();
    if (begin > end || end > data.size()) {
      throw Failure(data_error(where, cat("offsets inside the data of ", data.size(), " bytes"),
                               cat(begin, " to ", end), "the file is truncated or corrupt: fetch it again"));
    }
    const auto bytes = safetensors_bytes(*tensor.dtype, tensor.shape);
    if (!bytes || *bytes != end - begin) {
      throw Failure(data_error(
          where, bytes ? cat(*bytes, " bytes by its shape and dtype") : std::string("a shape that fits in memory"),
          cat(end - begin, " bytes"), io::kCorruptFile));
    }
    tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    out_.tensors_.push_back(std::move(tensor));
  }

  // Sorted by offset, the tensors lie end to end and fill the data.
  void order_and_check(std::size_t first, std::span<const std::byte> data, const std::string& path) {
    const auto begin = out_.tensors_.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_sort(begin, out_.tensors_.end(), [](const auto& a, const auto& b) {
      return a.bytes.data() != b.bytes.data() ? a.bytes.data() < b.bytes.data() : a.bytes.size() < b.bytes.size();
    });
    const std::byte* at = data.data();
    for (std::size_t i = first; i < out_.tensors_.size(); ++i) {
      const SafetensorsTensor& tensor = out_.tensors_[i];
      const std::string where = cat(path, ": tensor \"", tensor.name, "\"");
      if (tensor.bytes.data() != at) {
        throw Failure(
            data_error(where, "to begin where the tensor before it ends", "a gap or an overlap", io::kCorruptFile));
      }
      at += tensor.bytes.size();
      if (!out_.index_.emplace(tensor.name, i).second)
        throw Failure(data_error(where, "each tensor once", "it also in another shard", "fetch the checkpoint again"));
    }
    if (at != data.data() + data.size()) {
      throw Failure(data_error(path, cat(at - data.data(), " bytes of data"), cat(data.size()), io::kCorruptFile));
    }
  }

  Safetensors out_;
};

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
  return catching([&] { return SafetensorsParser::open(path); });
}

Result<Safetensors> parse_safetensors(const std::string& name, std::span<const std::byte> bytes) {
  return catching([&] { return SafetensorsParser::parse(name, bytes); });
}

Result<Safetensors> Safetensors::open_directory(const std::filesystem::path& directory, const std::string& stem) {
  return catching([&] { return SafetensorsParser::open_directory(directory, stem); });
}

const SafetensorsTensor* Safetensors::tensor(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status Safetensors::intact() const {
  for (const auto& file : files_) {
    if (auto status = file->intact(); !status) return status;
  }
  return Unit{};
}

}  // namespace tern::checkpoint
