#include "checkpoint/checkpoint_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/fp8.h"
#include "io/byte_reader.h"
#include "io/json_field.h"
#include "io/system_error.h"

namespace tern::checkpoint {

namespace fs = std::filesystem;
using Json = io::Json;

struct CheckpointSource::State {
  Kind kind = Kind::safetensors;
  fs::path path;
  fs::path directory;
  std::optional<Gguf> gguf;
  std::optional<Safetensors> safetensors;
  std::optional<Json> config;
  std::vector<SourceTensor> tensors;
  std::unordered_map<std::string, std::size_t> index;
  std::map<std::string, std::string> no_metadata;

  std::vector<std::shared_ptr<const io::MappedFile>> no_files;
  std::span<std::byte> unreadable;  // addresses of described tensors

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!unreadable.empty()) (void)::munmap(unreadable.data(), unreadable.size());
  }

  [[nodiscard]] const std::vector<std::shared_ptr<const io::MappedFile>>& files() const {
    if (!gguf && !safetensors) return no_files;
    return gguf ? gguf->files() : safetensors->files();
  }

  void open_gguf(const fs::path& file) {
    kind = Kind::gguf;
    directory = file.parent_path();
    gguf = Gguf::open(file).value();
    for (const GgufTensor& tensor : gguf->tensors()) {
      Storage storage;
      storage.dtype = ggml_plain_dtype(tensor.type);
      if (!storage.dtype) storage.block = tensor.type;
      storage.name = ggml_type_info(tensor.type).name;
      tensors.push_back({tensor.name, tensor.shape, std::move(storage), tensor.bytes});
    }
  }

  void take(Safetensors opened) {
    safetensors = std::move(opened);
    for (const SafetensorsTensor& tensor : safetensors->tensors()) {
      tensors.push_back({tensor.name,
                         tensor.shape,
                         {tensor.dtype->dtype, std::nullopt, std::string(tensor.dtype->name)},
                         tensor.bytes});
    }
  }

  void open_directory(bool with_weights) {
    kind = Kind::hugging_face;
    directory = path;
    if (fs::exists(directory / "config.json")) config = io::read_json_file(directory / "config.json").value();
    if (config) {
      const std::string file = (directory / "config.json").string();
      (void)io::JsonField(*config, file, "restore the model's config.json").object();
    }
    if (config && !with_weights) return;
    for (const char* stem : {"model", "adapter_model"}) {
      const std::string base = (directory / stem).string();
      if (!fs::exists(base + ".safetensors") && !fs::exists(base + ".safetensors.index.json")) continue;
      take(Safetensors::open_directory(directory, stem).value());
      return;
    }
    std::vector<fs::path> found;
    bool torch = false;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      torch = torch || name.starts_with("pytorch_model");
      const bool later_split = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
      if (entry.path().extension() == ".gguf" && !later_split) found.push_back(entry.path());
    }
    if (found.size() == 1) return open_gguf(found.front());
    if (found.size() > 1) {
      std::sort(found.begin(), found.end());
      throw Failure(data_error(path.string(), "one model", cat(found.size(), " GGUF files"),
                               cat("name one, as ", found.front().string())));
    }
    throw Failure(
        data_error(path.string(), "model.safetensors, its index, or a .gguf file",
                   torch ? "only PyTorch pickles, which are programs and not read" : "none of them",
                   torch ? "convert them with `save_pretrained(safe_serialization=True)`" : "check the path"));
  }

  void open(bool with_weights) {
    std::error_code code;
    const fs::file_status status = fs::status(path, code);
    if (status.type() == fs::file_type::not_found) throw Failure(io::read_error(path.string(), ENOENT));
    if (fs::is_directory(status)) {
      open_directory(with_weights);
    } else if (path.extension() == ".safetensors") {
      directory = path.parent_path();
      take(Safetensors::open(path).value());
    } else {
      open_gguf(path);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
  }
};

CheckpointSource::CheckpointSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointSource::CheckpointSource(CheckpointSource&&) noexcept = default;
CheckpointSource& CheckpointSource::operator=(CheckpointSource&&) noexcept = default;
CheckpointSource::~CheckpointSource() = default;

Result<CheckpointSource> CheckpointSource::open_with(const fs::path& path, bool weights) {
  return catching([&] {
    auto state = std::make_unique<State>();
    state->path = path;
    try {
      state->open(weights);
    } catch (const fs::filesystem_error& why) {
      throw Failure(io::read_error(why.path1().string(), why.code().value()));
    }
    return CheckpointSource(std::move(state));
  });
}

void CheckpointSource::describe(std::vector<SourceTensor> tensors) {
  if (!state_->tensors.empty()) throw std::logic_error("checkpoint source: it has tensors of its own");
  const auto bytes_of = [](const SourceTensor& tensor) {
    return element_count(tensor.shape).value_or(0) * static_cast<std::uint64_t>(dtype_bytes(*tensor.storage.dtype));
  };
  std::uint64_t most = 1;
  for (const SourceTensor& tensor : tensors) {
    if (tensor.bytes.data() == nullptr) most = std::max(most, bytes_of(tensor));
  }
  void* const range = ::mmap(nullptr, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  state_->unreadable = {static_cast<std::byte*>(range), most};
  for (SourceTensor& tensor : tensors) {
    if (tensor.bytes.data() == nullptr) {
      tensor.bytes = std::span<const std::byte>(state_->unreadable).first(bytes_of(tensor));
    }
    state_->index.emplace(tensor.name, state_->tensors.size());
    state_->tensors.push_back(std::move(tensor));
  }
}

Result<CheckpointSource> CheckpointSource::open(const fs::path& path) { return open_with(path, true); }
Result<CheckpointSource> CheckpointSource::open_config(const fs::path& path) { return open_with(path, false); }

CheckpointSource::Kind CheckpointSource::kind() const { return state_->kind; }
const fs::path& CheckpointSource::path() const { return state_->path; }
const fs::path& CheckpointSource::directory() const { return state_->directory; }
const std::vector<SourceTensor>& CheckpointSource::tensors() const { return state_->tensors; }
const Gguf* CheckpointSource::gguf() const { return state_->gguf ? &*state_->gguf : nullptr; }
const Json* CheckpointSource::config() const { return state_->config ? &*state_->config : nullptr; }

const std::map<std::string, std::string>& CheckpointSource::safetensors_metadata() const {
  return state_->safetensors ? state_->safetensors->metadata() : state_->no_metadata;
}

const std::vector<std::shared_ptr<const io::MappedFile>>& CheckpointSource::files() const { return state_->files(); }

const SourceTensor* CheckpointSource::find(std::string_view name) const {
  const auto found = state_->index.find(std::string(name));
  return found == state_->index.end() ? nullptr : &state_->tensors[found->second];
}

Result<const SourceTensor*> CheckpointSource::require(std::string_view name) const {
  if (const SourceTensor* tensor = find(name)) return tensor;
  std::vector<std::string> names;
  for (const SourceTensor& tensor : state_->tensors) names.push_back(tensor.name);
  const std::string close = nearest(name, names);
  return data_error(
      cat(state_->path.string(), ": tensor \"", name, "\""), "such a tensor", "none",
      close.empty() ? std::string("`tern inspect` lists those there are") : cat("the nearest is \"", close, "\""));
}

Status CheckpointSource::read_f32(const SourceTensor& tensor, std::span<float> values) const {
  const auto count = element_count(tensor.shape);
  const std::string where = cat(state_->path.string(), ": tensor \"", tensor.name, "\"");
  if (!count || *count != values.size())
    throw std::logic_error(cat(where, ": ", values.size(), " values in place of ", count.value_or(0)));
  auto status = Status(Unit{});
  if (tensor.storage.block) {
    status = dequantize(*tensor.storage.block, tensor.bytes, values);
  } else if (tensor.storage.dtype) {
    status = to_f32(*tensor.storage.dtype, tensor.bytes, values);
  } else {
    return data_error(where, "a dtype that can be read as numbers", tensor.storage.name, "convert the file to BF16");
  }
  if (!status) return status.error().inside(where);
  return intact();
}

void CheckpointSource::will_need(const SourceTensor& tensor) const {
  for (const auto& file : state_->files()) file->will_need(tensor.bytes);
}
void CheckpointSource::done_with(const SourceTensor& tensor) const {
  for (const auto& file : state_->files()) file->done_with(tensor.bytes);
}

Status CheckpointSource::intact() const {
  if (files().empty()) return Unit{};
  return state_->gguf ? state_->gguf->intact() : state_->safetensors->intact();
}

namespace {

template <typename T, typename Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> values, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert(io::load_as<T>(bytes.data() + i * sizeof(T)));
}

template <typename T>
void cast_all(std::span<const std::byte> bytes, std::span<float> values) {
  convert_all<T>(bytes, values, [](T value) { return static_cast<float>(value); });
}

}  // namespace

Status to_f32(tern_dtype dtype, std::span<const std::byte> bytes, std::span<float> values) {
  if (bytes.size() != values.size() * static_cast<std::size_t>(dtype_bytes(dtype))) {
    throw std::logic_error(
        cat("to_f32 of ", dtype_name(dtype), ": ", bytes.size(), " bytes, ", values.size(), " values"));
  }
  switch (dtype) {
    case TERN_F32:
      cast_all<float>(bytes, values);
      break;
    case TERN_F64:
      cast_all<double>(bytes, values);
      break;
    case TERN_F16:
      convert_all<std::uint16_t>(bytes, values, fp16_to_float);
      break;
    case TERN_BF16:
      convert_all<std::uint16_t>(bytes, values, bf16_to_float);
      break;
    case TERN_F8_E4M3:
      convert_all<std::uint8_t>(bytes, values, f8_e4m3_to_float);
      break;
    case TERN_F8_E5M2:
      convert_all<std::uint8_t>(bytes, values, f8_e5m2_to_float);
      break;
    case TERN_I8:
      cast_all<std::int8_t>(bytes, values);
      break;
    case TERN_U8:
    case TERN_BOOL:
      cast_all<std::uint8_t>(bytes, values);
      break;
    case TERN_I16:
      cast_all<std::int16_t>(bytes, values);
      break;
    case TERN_U16:
      cast_all<std::uint16_t>(bytes, values);
      break;
    case TERN_I32:
      cast_all<std::int32_t>(bytes, values);
      break;
    case TERN_U32:
      cast_all<std::uint32_t>(bytes, values);
      break;
    case TERN_I64:
      cast_all<std::int64_t>(bytes, values);
      break;
    case TERN_U64:
      cast_all<std::uint64_t>(bytes, values);
      break;
    default:
      throw std::logic_error(cat("to_f32 of ", dtype_name(dtype), ": no file has it"));
  }
  return Unit{};
}

}  // namespace tern::checkpoint
