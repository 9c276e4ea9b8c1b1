#include "checkpoint/convert.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <variant>

#include "base/dtype.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "checkpoint/logical_tensors.h"
#include "checkpoint/quantize.h"
#include "checkpoint/safetensors.h"
#include "io/atomic_dir.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

constexpr std::int64_t kChunkElements = std::int64_t{1} << 22;  // 16 MiB of fp32 at a time

// One tensor of the result: copied as it is, or expanded and packed as `type`.
struct Job {
  const LogicalTensor* from = nullptr;
  std::string name;
  bool copy = false;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> order;  // row of the source for each row; empty: the same
};

class Converter {
 public:
  Converter(const CheckpointSource& source, fs::path target, const ConvertOptions& options)
      : source_(source), target_(std::move(target)), options_(options), pool_(options.threads) {
    container_ = options.container.value_or(container_of(target_));
  }

  ConvertReport run() {
    check_options();
    tensors_ = logical_tensors(source_).value();
    for (const LogicalTensor& tensor : tensors_) {
      std::string name = options_.rename ? options_.rename(tensor.name) : tensor.name;
      if (name.empty()) continue;
      jobs_.push_back(plan(tensor, std::move(name)));
      if (options_.row_order) jobs_.back().order = checked_order(tensor);
      total_ += jobs_.back().copy ? tensor.data->bytes.size() : tensor.stored_bytes();
    }
    if (container_ == Container::safetensors_directory) {
      write_directory();
    } else {
      write_single();
    }
    report_.tensors = jobs_.size() + options_.added.size();
    return std::move(report_);
  }

 private:
  void check_options() {
    if (!options_.outtype.empty()) {
      outtype_ = ggml_type_from_name(options_.outtype);
      if (!outtype_ || !can_quantize(*outtype_)) {
        throw Failure(usage_error(cat("tern does not write the type ", options_.outtype),
                                  "choose f32, f16, bf16, q8_0, q4_0, q4_1, q4_k or q6_k as --outtype"));
      }
      if (container_ != Container::gguf && !ggml_plain_dtype(*outtype_)) {
        throw Failure(usage_error(cat("a safetensors file cannot hold ", options_.outtype),
                                  "choose f32, f16 or bf16 as --outtype, or write a .gguf file"));
      }
    }
    std::error_code ignored;
    if (container_ != Container::safetensors_directory && fs::exists(target_, ignored) && !options_.replace) {
      throw Failure(usage_error(cat(target_.string(), " already exists"),
                                "name another file, or replace it with --exist_ok true"));
    }
    if (container_ == Container::gguf && !options_.metadata && source_.gguf() == nullptr) {
      throw std::logic_error(cat(target_.string(), ": no metadata for a GGUF file"));
    }
  }

  static bool floating(const LogicalTensor& tensor) {
    if (tensor.scale != nullptr || tensor.data->storage.block) return true;
    return tensor.data->storage.dtype && dtype_info(*tensor.data->storage.dtype).floating;
  }

  [[nodiscard]] std::string where(const LogicalTensor& tensor) const {
    return cat(source_.path().string(), ": tensor \"", tensor.name, "\"");
  }

  std::vector<std::int64_t> checked_order(const LogicalTensor& tensor) const {
    auto order = options_.row_order(tensor.name);
    if (order.empty()) return order;
    const std::int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
    const bool sound = static_cast<std::int64_t>(order.size()) == rows && tensor.shape.size() <= 2 &&
                       std::all_of(order.begin(), order.end(), [&](std::int64_t r) { return r >= 0 && r < rows; });
    if (!sound) throw std::logic_error(cat(where(tensor), ": an order of ", order.size(), " rows for ", rows));
    return order;
  }

  Job plan(const LogicalTensor& tensor, std::string name) {
    Job job{&tensor, std::move(name), false, GgmlType::f32, {}};
    const Storage& stored = tensor.data->storage;
    if (!outtype_ || !floating(tensor)) {
      job.copy = tensor.scale == nullptr &&
                 (container_ != Container::gguf ? !stored.block
                                                : stored.block || (stored.dtype && ggml_type_of(*stored.dtype)));
      if (job.copy) {
        if (stored.block) job.type = *stored.block;
        if (stored.dtype && ggml_type_of(*stored.dtype)) job.type = *ggml_type_of(*stored.dtype);
        return job;
      }
      throw Failure(
          usage_error(cat(where(tensor), " is stored as ", tensor.storage_name(), ", which the target cannot hold"),
                      "choose a type with --outtype, such as bf16"));
    }
    job.type = fitting_type(tensor);
    const auto plain = ggml_plain_dtype(job.type);
    job.copy = tensor.scale == nullptr &&
               (stored.block ? stored.block == job.type : stored.dtype == plain && plain.has_value());
    return job;
  }

  // The type asked for, or the nearest finer one whose blocks divide the rows.
  GgmlType fitting_type(const LogicalTensor& tensor) {
    GgmlType type = *outtype_;
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (container_ != Container::gguf) return type;
    if (tensor.shape.size() <= 1) return GgmlType::f32;
    for (const GgmlType finer : {GgmlType::q8_0, GgmlType::f16}) {
      if (columns % ggml_type_info(type).block_elements == 0) return type;
      if (finer == type) continue;
      report_.notes.push_back(cat(tensor.name, ": ", ggml_type_info(finer).name, " in place of ",
                                  ggml_type_info(type).name, ", as rows of ", columns, " are no multiple of ",
                                  ggml_type_info(type).block_elements));
      type = finer;
    }
    return type;
  }

  template <typename Writer>
  void write_all(Writer& writer) {
    for (const Job& job : jobs_) {
      for (const SourceTensor* part : {job.from->data, job.from->scale, job.from->zero}) {
        if (part != nullptr) source_.will_need(*part);
      }
      if (job.copy) {
        copy_bytes(writer, job);
      } else {
        expand_and_pack(writer, job);
      }
      for (const SourceTensor* part : {job.from->data, job.from->scale, job.from->zero}) {
        if (part != nullptr) source_.done_with(*part);
      }
      source_.intact().value();
    }
    for (const AddedTensor& tensor : options_.added) {
      writer.write(tensor.name, std::as_bytes(std::span(tensor.values))).value();
      report_.bytes += tensor.values.size() * sizeof(float);
    }
  }

  template <typename Writer>
  void copy_bytes(Writer& writer, const Job& job) {
    std::span<const std::byte> bytes = job.from->data->bytes;
    if (bytes.empty()) return;
    std::vector<std::byte> reordered;
    if (!job.order.empty()) {
      reordered.reserve(bytes.size());
      const std::size_t row = bytes.size() / job.order.size();
      for (const std::int64_t from : job.order) {
        const auto part = bytes.subspan(static_cast<std::size_t>(from) * row, row);
        reordered.insert(reordered.end(), part.begin(), part.end());
      }
      bytes = reordered;
    }
    constexpr std::size_t kPart = std::size_t{64} << 20;
    for (std::size_t at = 0; at < bytes.size(); at += kPart) {
      const auto part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
      writer.write(job.name, part).value();
      advance(part.size());
    }
    report_.bytes += bytes.size();
  }

  template <typename Writer>
  void expand_and_pack(Writer& writer, const Job& job) {
    const LogicalTensor& tensor = *job.from;
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    const auto count = static_cast<std::int64_t>(element_count(tensor.shape).value_or(0));
    if (count == 0) return;
    const std::int64_t rows = count / columns;
    const std::int64_t chunk = std::clamp<std::int64_t>(kChunkElements / columns, 1, rows);
    const GgmlTypeInfo& type = ggml_type_info(job.type);
    const std::int64_t row_bytes = columns / type.block_elements * type.block_bytes;
    std::vector<float> values(static_cast<std::size_t>(chunk * columns));
    std::vector<std::byte> packed(static_cast<std::size_t>(chunk * row_bytes));
    std::uint64_t counted = 0;
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t here = std::min(chunk, rows - first);
      pool_.parallel_for(here, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        const std::span<float> some = std::span(values).subspan(static_cast<std::size_t>(begin * columns),
                                                                static_cast<std::size_t>((end - begin) * columns));
        const std::span<std::byte> out = std::span(packed).subspan(static_cast<std::size_t>(begin * row_bytes),
                                                                   static_cast<std::size_t>((end - begin) * row_bytes));
        read_rows(job, first + begin, end - begin, some);
        check(tensor, quantize(job.type, some, out));
      });
      writer.write(job.name, std::span(packed).first(static_cast<std::size_t>(here * row_bytes))).value();
      report_.bytes += static_cast<std::uint64_t>(here * row_bytes);
      const std::uint64_t reached =
          tensor.stored_bytes() / static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(first + here);
      advance(reached - counted);
      counted = reached;
    }
  }

  // Rows of the target, wherever the source has them.
  void read_rows(const Job& job, std::int64_t first, std::int64_t count, std::span<float> values) const {
    const LogicalTensor& tensor = *job.from;
    if (job.order.empty()) return check(tensor, read_rows_f32(tensor, first, count, values));
    if (tensor.shape.size() == 1) {  // its elements are the rows
      std::vector<float> stored(values.size());
      check(tensor, read_rows_f32(tensor, 0, 1, stored));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = stored[static_cast<std::size_t>(job.order[i])];
      return;
    }
    const std::size_t columns = values.size() / static_cast<std::size_t>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      check(tensor, read_rows_f32(tensor, job.order[static_cast<std::size_t>(first + i)], 1,
                                  values.subspan(static_cast<std::size_t>(i) * columns, columns)));
    }
  }

  void check(const LogicalTensor& tensor, const Status& status) const {
    if (!status) throw Failure(status.error().inside(where(tensor)));
  }

  void advance(std::uint64_t bytes) {
    done_ += bytes;
    if (options_.progress && !options_.progress(std::min(done_, total_), total_)) {
      throw Failure(failed_error(cat("the conversion was stopped before ", target_.string(), " was written"),
                                 "run it again; nothing was left behind"));
    }
  }

  [[nodiscard]] std::vector<TensorSpec> safetensors_specs() const {
    std::vector<TensorSpec> specs;
    for (const Job& job : jobs_) {
      const auto dtype = job.copy ? job.from->data->storage.dtype : ggml_plain_dtype(job.type);
      const std::string name = dtype ? std::string(dtype_info(*dtype).safetensors) : job.from->data->storage.name;
      specs.push_back({job.name, name, job.from->shape});
    }
    for (const AddedTensor& tensor : options_.added) specs.push_back({tensor.name, "F32", tensor.shape});
    return specs;
  }

  // config.json says which dtype the weights have, and no longer that they are quantised.
  [[nodiscard]] std::string adapted_config() const {
    Json config = *source_.config();
    config.erase("quantization_config");
    if (outtype_) {
      const char* key = config.contains("dtype") ? "dtype" : "torch_dtype";
      config[key] = std::string(dtype_info(*ggml_plain_dtype(*outtype_)).torch);
    }
    return io::write_json(config);
  }

  void copy_companions(const fs::path& directory) const {
    if (!options_.copy_files || source_.kind() != CheckpointSource::Kind::hugging_face) return;
    for (const auto& entry : fs::directory_iterator(source_.directory())) {
      const std::string name = entry.path().filename().string();
      const std::string extension = entry.path().extension().string();
      const bool wanted = extension == ".json" || extension == ".txt" || extension == ".model" ||
                          extension == ".jinja" || name == "LICENSE";
      if (!wanted || !entry.is_regular_file() || name.ends_with(".index.json") || name == "manifest.json" ||
          options_.files.contains(name))
        continue;
      if (name == "config.json") {
        io::write_file(directory / name, adapted_config()).value();
      } else {
        fs::copy_file(entry.path(), directory / name);
      }
    }
  }

  void write_directory() {
    io::AtomicDir directory = io::AtomicDir::begin(target_, options_.replace ? io::AtomicDir::Existing::replace
                                                                             : io::AtomicDir::Existing::refuse)
                                  .value();
    SafetensorsWriteOptions write;
    write.max_shard_size = options_.max_shard_size;
    SafetensorsWriter writer = SafetensorsWriter::create(directory.path(), safetensors_specs(), write).value();
    write_all(writer);
    (void)writer.finish().value();
    copy_companions(directory.path());
    for (const auto& [name, text] : options_.files) io::write_file(directory.path() / name, text).value();
    directory.commit().value();
  }

  void write_single() {
    // One file appears as a directory does: written beside its target, flushed, renamed.
    const fs::path parent = fs::absolute(target_).parent_path();
    io::remove_stale_files(target_);
    const std::string stem = cat(target_.filename().string(), ".tmp-", static_cast<std::int64_t>(::getpid()));
    const fs::path temporary = parent / (container_ == Container::gguf ? stem : stem + ".safetensors");
    struct Remove {
      const fs::path& path;
      ~Remove() {
        std::error_code ignored;
        fs::remove(path, ignored);
      }
    } const remove{temporary};
    if (container_ == Container::gguf) {
      GgufWriter writer = GgufWriter::create(temporary, gguf_metadata(), gguf_specs()).value();
      write_all(writer);
      writer.finish().value();
    } else {
      SafetensorsWriteOptions write;
      write.stem = stem;
      write.max_shard_size = ~std::uint64_t{0};
      SafetensorsWriter writer = SafetensorsWriter::create(parent, safetensors_specs(), write).value();
      write_all(writer);
      (void)writer.finish().value();
    }
    fs::rename(temporary, target_);
    io::sync_directory(parent).value();
  }

  [[nodiscard]] std::vector<GgufTensorSpec> gguf_specs() const {
    std::vector<GgufTensorSpec> specs;
    for (const Job& job : jobs_) specs.push_back({job.name, job.type, job.from->shape});
    for (const AddedTensor& tensor : options_.added) specs.push_back({tensor.name, GgmlType::f32, tensor.shape});
    return specs;
  }

  [[nodiscard]] GgufMetadata gguf_metadata() const {
    GgufMetadata metadata;
    if (options_.metadata) {
      metadata = *options_.metadata;
    } else {
      for (const auto& [key, value] : source_.gguf()->metadata()) {
        // The result is one file, in the default alignment.
        if (!key.starts_with("split.") && key != "general.alignment") metadata.set(key, value);
      }
    }
    if (outtype_) {
      metadata.set("general.file_type", static_cast<std::uint32_t>(ggml_type_info(*outtype_).file_type));
      metadata.set("general.quantization_version", std::uint32_t{2});
    }
    return metadata;
  }

  const CheckpointSource& source_;
  fs::path target_;
  const ConvertOptions& options_;
  ThreadPool pool_;
  Container container_ = Container::gguf;
  std::optional<GgmlType> outtype_;
  std::vector<LogicalTensor> tensors_;
  std::vector<Job> jobs_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  ConvertReport report_;
};

}  // namespace

Container container_of(const fs::path& target) {
  if (target.extension() == ".gguf") return Container::gguf;
  if (target.extension() == ".safetensors") return Container::safetensors_file;
  return Container::safetensors_directory;
}

Result<ConvertReport> convert_checkpoint(const CheckpointSource& source, const fs::path& target,
                                         const ConvertOptions& options) {
  return catching([&] {
    try {
      return Converter(source, target, options).run();
    } catch (const fs::filesystem_error& why) {
      throw Failure(io::write_error(why.path1().string(), why.code().value()));
    }
  });
}

}  // namespace tern::checkpoint
