// Opening a GGUF file: everything in it is checked here, so that the views handed out need no checks.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <limits>

#include "base/strings.h"
#include "checkpoint/gguf.h"
#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kMaxDimensions = 4;   // ggml's own bound
constexpr std::uint64_t kDefaultAlignment = 32;

GgufValueType value_type(io::ByteReader& in, const std::string& where) {
  const auto number = in.value<std::uint32_t>("a value type");
  if (number > static_cast<std::uint32_t>(GgufValueType::f64)) {
    throw Failure(data_error(where, "a value type from 0 to 12", cat(number), io::kCorruptFile));
  }
  return static_cast<GgufValueType>(number);
}

GgufValue read_value(io::ByteReader& in, const std::string& where) {
  GgufValue value;
  value.type = value_type(in, where);
  if (value.type == GgufValueType::string) {
    const std::string_view text = in.text("a string");
    value.raw = std::as_bytes(std::span(text));
    return value;
  }
  if (value.type != GgufValueType::array) {
    value.raw = in.take(gguf_scalar_bytes(value.type), "a value");
    if (value.type == GgufValueType::boolean && value.raw[0] > std::byte{1}) {
      throw Failure(data_error(where, "a boolean of 0 or 1", cat(static_cast<int>(value.raw[0])), io::kCorruptFile));
    }
    return value;
  }
  value.element = value_type(in, where);
  value.count = in.value<std::uint64_t>("an array's length");
  if (value.element == GgufValueType::array) {
    throw Failure(data_error(where, "an array of scalars or strings", "an array of arrays", io::kCorruptFile));
  }
  const std::uint64_t smallest = value.element == GgufValueType::string ? 8 : gguf_scalar_bytes(value.element);
  if (value.count > in.left() / smallest) {
    throw Failure(data_error(where, cat("an array of ", value.count, " ", gguf_value_type_name(value.element)),
                             cat(in.left(), " bytes before the end of the file"), io::kCorruptFile));
  }
  if (value.element != GgufValueType::string) {
    value.raw = in.take(value.count * smallest, "an array");
    return value;
  }
  io::ByteReader start = in;
  for (std::uint64_t i = 0; i < value.count; ++i) (void)in.text("a string of an array");
  value.raw = start.take(in.offset() - start.offset(), "an array");
  return value;
}

struct SplitName {
  std::string stem;
  std::uint32_t number;  // from 1
  std::uint32_t count;
};

// name-00002-of-00005.gguf
std::optional<SplitName> split_name(const std::string& path) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kTail || !path.ends_with(".gguf")) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  SplitName name{path.substr(0, path.size() - kTail), 0, 0};
  const auto number = [](std::string_view digits, std::uint32_t& out) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return code == std::errc() && end == digits.data() + digits.size();
  };
  if (!number(tail.substr(1, 5), name.number) || !number(tail.substr(10, 5), name.count)) return std::nullopt;
  return name;
}

std::string split_path(const SplitName& name, std::uint32_t number) {
  char tail[40];
  std::snprintf(tail, sizeof(tail), "-%05u-of-%05u.gguf", number, name.count);
  return name.stem + tail;
}

}  // namespace

class GgufParser {
 public:
  static Gguf open(const std::filesystem::path& path) {
    GgufParser parser;
    parser.read_file(path.string());
    const std::int64_t count = parser.split_key("split.count", 0);
    if (count > 1) parser.read_splits(path.string(), count);
    if (auto status = parser.out_.intact(); !status) throw Failure(status.error());
    return std::move(parser.out_);
  }

 private:
  struct Pending {
    GgufTensor tensor;
    std::uint64_t offset;
    std::uint64_t size;
  };

  std::int64_t split_key(std::string_view key, std::int64_t otherwise) {
    auto value = out_.integer_or(key, otherwise);
    return value.value();
  }

  void read_splits(const std::string& path, std::int64_t count) {
    const auto name = split_name(path);
    if (!name || name->count != count) {
      throw Failure(data_error(path,
                               cat("a name that ends in ", split_path({"", 1, static_cast<std::uint32_t>(count)}, 1),
                                   ", as its key split.count says"),
                               "another name", "give the split files the names they had"));
    }
    if (name->number != 1 || split_key("split.no", 0) != 0) {
      throw Failure(data_error(path, "the first file of the split set", cat("file ", name->number, " of ", name->count),
                               cat("name ", split_path(*name, 1))));
    }
    const std::int64_t total = split_key("split.tensors.count", -1);
    for (std::uint32_t number = 2; number <= name->count; ++number) read_file(split_path(*name, number));
    if (total >= 0 && static_cast<std::uint64_t>(total) != out_.tensors_.size()) {
      throw Failure(data_error(path, cat(total, " tensors in the split set"), cat(out_.tensors_.size()),
                               "fetch the split files again: some are of another set"));
    }
  }

  void read_file(const std::string& path) {
    auto mapped = io::MappedFile::open(path);
    std::shared_ptr<const io::MappedFile> file = std::move(mapped).value();
    out_.files_.push_back(file);
    const bool first = out_.files_.size() == 1;
    io::ByteReader in(file->bytes(), file->path());
    const auto [tensor_count, key_count] = read_header(in);
    std::vector<std::pair<std::string, GgufValue>> metadata = read_metadata(in, key_count);
    const std::uint64_t alignment = read_alignment(metadata, path);
    if (first) {
      out_.metadata_ = std::move(metadata);
      for (std::size_t i = 0; i < out_.metadata_.size(); ++i) out_.key_index_.emplace(out_.metadata_[i].first, i);
    } else {
      check_split(metadata, path);
    }
    std::vector<Pending> pending;
    // The smallest tensor entry: name length, a dimension count, a type and an offset.
    if (tensor_count > in.left() / 24) {
      throw Failure(data_error(path, cat(tensor_count, " tensors"), cat("only ", in.left(), " bytes left for them"),
                               io::kCorruptFile));
    }
    pending.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(tensor_count, 1U << 16)));
    for (std::uint64_t i = 0; i < tensor_count; ++i) pending.push_back(read_tensor(in, alignment));
    place_tensors(in, pending, alignment);
  }

  std::pair<std::uint64_t, std::uint64_t> read_header(io::ByteReader& in) {
    const auto magic = in.value<std::uint32_t>("the magic number");
    if (magic != kMagic) {
      throw Failure(
          data_error(in.name(), "a GGUF file", "a file that does not start with \"GGUF\"", "name a .gguf file"));
    }
    const auto version = in.value<std::uint32_t>("the version");
    if ((version & 0xffffU) == 0 && version != 0) {
      throw Failure(
          data_error(in.name(), "a little-endian GGUF file", "a big-endian one", "convert it to little-endian"));
    }
    if (version != 2 && version != 3) {
      throw Failure(data_error(in.name(), "GGUF version 2 or 3", cat("version ", version),
                               version == 1 ? "convert it with a current llama.cpp" : "use a newer tern"));
    }
    out_.version_ = version;
    const auto tensors = in.value<std::uint64_t>("the tensor count");
    const auto keys = in.value<std::uint64_t>("the key count");
    return {tensors, keys};
  }

  std::vector<std::pair<std::string, GgufValue>> read_metadata(io::ByteReader& in, std::uint64_t count) {
    // The smallest entry: a key's length, a type and one byte.
    if (count > in.left() / 13) {
      throw Failure(data_error(in.name(), cat(count, " metadata keys"), cat("only ", in.left(), " bytes left for them"),
                               io::kCorruptFile));
    }
    std::vector<std::pair<std::string, GgufValue>> metadata;
    std::unordered_map<std::string, std::size_t> seen;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string key(in.text("a key"));
      const std::string where = cat(in.name(), ": key \"", key, "\"");
      GgufValue value = read_value(in, where);
      if (!seen.emplace(key, i).second)
        throw Failure(data_error(where, "each key once", "the key twice", io::kCorruptFile));
      metadata.emplace_back(std::move(key), value);
    }
    return metadata;
  }

  static std::uint64_t read_alignment(const std::vector<std::pair<std::string, GgufValue>>& metadata,
                                      const std::string& path) {
    for (const auto& [key, value] : metadata) {
      if (key != "general.alignment") continue;
      const auto alignment = value.integer();
      if (!alignment || *alignment <= 0 || *alignment > (1 << 30) ||
          !std::has_single_bit(static_cast<std::uint64_t>(*alignment))) {
        throw Failure(data_error(cat(path, ": key \"general.alignment\""), "a power of two",
                                 alignment ? cat(*alignment) : std::string(gguf_value_type_name(value.type)),
                                 io::kCorruptFile));
      }
      return static_cast<std::uint64_t>(*alignment);
    }
    return kDefaultAlignment;
  }

  void check_split(const std::vector<std::pair<std::string, GgufValue>>& metadata, const std::string& path) {
    std::int64_t number = -1;
    std::int64_t count = -1;
    for (const auto& [key, value] : metadata) {
      if (key == "split.no") number = value.integer().value_or(-1);
      if (key == "split.count") count = value.integer().value_or(-1);
    }
    const auto expected = static_cast<std::int64_t>(out_.files_.size()) - 1;
    const std::int64_t total = split_key("split.count", 0);
    if (number != expected || count != total) {
      throw Failure(data_error(path, cat("split.no ", expected, " and split.count ", total),
                               cat(number, " and ", count), "the file belongs to another set: fetch it again"));
    }
  }

  static Pending read_tensor(io::ByteReader& in, std::uint64_t alignment) {
    Pending entry;
    entry.tensor.name = std::string(in.text("a tensor's name"));
    const std::string where = cat(in.name(), ": tensor \"", entry.tensor.name, "\"");
    const auto dimensions = in.value<std::uint32_t>("a dimension count");
    if (dimensions > kMaxDimensions) {
      throw Failure(
          data_error(where, cat("at most ", kMaxDimensions, " dimensions"), cat(dimensions), io::kCorruptFile));
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto size = in.value<std::uint64_t>("a dimension");
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw Failure(data_error(where, "dimensions below 2^63", cat(size), io::kCorruptFile));
      }
      entry.tensor.shape.insert(entry.tensor.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto number = in.value<std::uint32_t>("a tensor type");
    const GgmlTypeInfo* type = find_ggml_type(number);
    if (type == nullptr) {
      throw Failure(
          data_error(where, "a tensor type that tern knows", cat("type ", number), "convert the file to another type"));
    }
    entry.tensor.type = type->type;
    entry.offset = in.value<std::uint64_t>("a tensor's offset");
    if (entry.offset % alignment != 0) {
      throw Failure(
          data_error(where, cat("an offset that is a multiple of ", alignment), cat(entry.offset), io::kCorruptFile));
    }
    const auto size = ggml_tensor_bytes(entry.tensor.type, entry.tensor.shape);
    if (!size) {
      throw Failure(data_error(
          where, cat("rows of whole ", type->name, " blocks (", type->block_elements, ") and a size below 2^62"),
          shape_text(entry.tensor.shape), io::kCorruptFile));
    }
    entry.size = *size;
    return entry;
  }

  void place_tensors(const io::ByteReader& in, std::vector<Pending>& pending, std::uint64_t alignment) {
    const std::shared_ptr<const io::MappedFile>& file = out_.files_.back();
    const std::uint64_t size = file->bytes().size();
    // The file may end right after the entries where there is no tensor data at all.
    const std::uint64_t start = std::min((in.offset() + alignment - 1) / alignment * alignment, size);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (Pending& entry : pending) {
      const std::string where = cat(file->path(), ": tensor \"", entry.tensor.name, "\"");
      if (entry.offset > size - start || entry.size > size - start - entry.offset) {
        throw Failure(data_error(where, cat(entry.size, " bytes at ", entry.offset, " of the data"),
                                 cat("data of ", size - start, " bytes"),
                                 "the file is truncated or corrupt: fetch it again"));
      }
      entry.tensor.bytes =
          file->bytes().subspan(static_cast<std::size_t>(start + entry.offset), static_cast<std::size_t>(entry.size));
      entry.tensor.file = out_.files_.size() - 1;
      if (entry.size != 0) ranges.emplace_back(entry.offset, entry.offset + entry.size);
      if (!out_.tensor_index_.emplace(entry.tensor.name, out_.tensors_.size()).second) {
        throw Failure(data_error(where, "each tensor once", "the name twice", io::kCorruptFile));
      }
      out_.tensors_.push_back(std::move(entry.tensor));
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first < ranges[i - 1].second) {
        throw Failure(data_error(file->path(), "tensors that do not overlap",
                                 cat("two that share the bytes at ", ranges[i].first), io::kCorruptFile));
      }
    }
  }

  Gguf out_;
};

Result<Gguf> Gguf::open(const std::filesystem::path& path) {
  return catching([&] { return GgufParser::open(path); });
}

}  // namespace tern::checkpoint
