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
  TargetTensor tensor;
  std::vector<const LogicalTensor*> from;
  bool copy = false;
  GgmlType type = GgmlType::f32;

  [[nodiscard]] const LogicalTensor& first() const { return *from.front(); }
  // Its share of the bytes of what it is made of.
  [[nodiscard]] std::uint64_t stored_bytes() const {
    double bytes = 0;
    double elements = 0;
    for (const LogicalTensor* part : from) {
      bytes += static_cast<double>(part->stored_bytes());
      elements += static_cast<double>(element_count(part->shape).value_or(0));
    }
    if (elements == 0) return 0;
    return static_cast<std::uint64_t>(bytes * static_cast<double>(element_count(tensor.shape).value_or(0)) / elements);
  }
  // The planes of all that it is made of.
  template <typename Visit>
  void for_each_part(const Visit& visit) const {
    for (const LogicalTensor* tensor : from) {
      for (const SourceTensor* part : {tensor->data, tensor->scale, tensor->zero}) {
        if (part != nullptr) visit(*part);
      }
    }
  }
};

std::string place_of(const CheckpointSource& source, const LogicalTensor& tensor) {
  return cat(source.path().string(), ": tensor \"", tensor.name, "\"");
}

// Of the tensor seen as [product of leading dimensions, last dimension].
std::int64_t rows_of(const LogicalTensor& tensor) {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  return columns == 0 ? 0 : static_cast<std::int64_t>(element_count(tensor.shape).value_or(0)) / columns;
}

class Converter {
 public:
  Converter(const CheckpointSource& source, fs::path target, const ConvertOptions& options)
      : source_(source), target_(std::move(target)), options_(options), pool_(options.threads) {
    container_ = options.container.value_or(container_of(target_));
  }

  ConvertReport run() {
    check_options();
    tensors_ = logical_tensors(source_).value();
    for (const LogicalTensor& tensor : tensors_) by_name_[tensor.name] = &tensor;
    for (TargetTensor& tensor : wanted()) {
      jobs_.push_back(plan(std::move(tensor)));
      total_ += jobs_.back().stored_bytes();
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

  [[nodiscard]] std::string where(const LogicalTensor& tensor) const { return place_of(source_, tensor); }

  // What is written: as the caller says, or the source's tensors.
  std::vector<TargetTensor> wanted() {
    return options_.tensors.empty() ? tensors_as_stored(source_).value() : options_.tensors;
  }

  std::vector<const LogicalTensor*> sources_of(const TargetTensor& tensor) const {
    std::vector<const LogicalTensor*> out;
    for (const std::string& name : tensor.sources) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) throw std::logic_error(cat(tensor.name, ": no tensor ", name, " in the source"));
      out.push_back(found->second);
    }
    return out;
  }

  // The rows' bytes can be taken over.
  bool is_copyable(const Job& job) const {
    return !job.tensor.rows.empty() && std::all_of(job.from.begin(), job.from.end(), [&](const LogicalTensor* tensor) {
      return tensor->scale == nullptr && tensor->data->storage.name == job.first().data->storage.name;
    });
  }

  Job plan(TargetTensor wanted) {
    Job job;
    job.from = sources_of(wanted);
    job.tensor = std::move(wanted);
    const LogicalTensor& tensor = job.first();
    const Storage& stored = tensor.data->storage;
    if (!outtype_ || !floating(tensor)) {
      job.copy = is_copyable(job) &&
                 (container_ != Container::gguf ? !stored.block
                                                : stored.block || (stored.dtype && ggml_type_of(*stored.dtype)));
      if (job.copy) {
        if (stored.block) job.type = *stored.block;
        if (stored.dtype && ggml_type_of(*stored.dtype)) job.type = *ggml_type_of(*stored.dtype);
        return job;
      }
      const auto plain = stored.dtype ? ggml_type_of(*stored.dtype) : std::nullopt;
      if (container_ == Container::gguf && floating(tensor) && tensor.scale == nullptr && (stored.block || plain)) {
        job.type = stored.block ? fitting_type(job.tensor, writable_type(job.tensor, *stored.block)) : *plain;
        return job;
      }
      throw Failure(
          usage_error(cat(where(tensor), " is stored as ", tensor.storage_name(), ", which the target cannot hold"),
                      "choose a type with --outtype, such as bf16"));
    }
    job.type = fitting_type(job.tensor, *outtype_);
    const auto plain = ggml_plain_dtype(job.type);
    job.copy =
        is_copyable(job) && (stored.block ? stored.block == job.type : stored.dtype == plain && plain.has_value());
    return job;
  }

  // The type of blocks, or the next of as many bits that is written here.
  GgmlType writable_type(const TargetTensor& tensor, GgmlType stored) {
    if (can_quantize(stored)) return stored;
    const auto bits = [](GgmlType type) {
      const GgmlTypeInfo& info = ggml_type_info(type);
      return 8.0 * info.block_bytes / info.block_elements;
    };
    for (const GgmlType finer : {GgmlType::q4_k, GgmlType::q6_k, GgmlType::q8_0}) {
      if (bits(finer) < bits(stored)) continue;
      report_.notes.push_back(cat(tensor.name, ": ", ggml_type_info(finer).name, " in place of ",
                                  ggml_type_info(stored).name, ", which tern reads and does not write"));
      return finer;
    }
    return GgmlType::f16;
  }

  // The type asked for, or the nearest finer one whose blocks divide the rows.
  GgmlType fitting_type(const TargetTensor& tensor, GgmlType type) {
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (container_ != Container::gguf) return type;
    // As llama.cpp keeps them: a router's roundings would choose other experts, and a convolution of so few rows has no
    // product of a narrower type there.
    const bool stays = !tensor.name.ends_with(".weight") || tensor.name.ends_with("ffn_gate_inp.weight") ||
                       tensor.name.ends_with("ffn_gate_inp_shexp.weight") || tensor.name.ends_with("ssm_norm.weight") ||
                       tensor.name.ends_with("ssm_conv1d.weight") || tensor.name.ends_with("shortconv.conv.weight");
    if (tensor.shape.size() <= 1 || stays) return GgmlType::f32;
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
      job.for_each_part([&](const SourceTensor& part) { source_.will_need(part); });
      if (job.copy) {
        copy_bytes(writer, job);
      } else {
        expand_and_pack(writer, job);
      }
      job.for_each_part([&](const SourceTensor& part) { source_.done_with(part); });
      source_.intact().value();
    }
    for (const AddedTensor& tensor : options_.added) {
      writer.write(tensor.name, std::as_bytes(std::span(tensor.values))).value();
      report_.bytes += tensor.values.size() * sizeof(float);
    }
  }

  // Runs of rows, put together where they are short.
  template <typename Writer>
  void copy_bytes(Writer& writer, const Job& job) {
    constexpr std::size_t kPart = std::size_t{64} << 20;
    std::vector<std::byte> gathered;
    const auto write = [&](std::span<const std::byte> bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += kPart) {
        const auto part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
        writer.write(job.tensor.name, part).value();
        advance(part.size());
        report_.bytes += part.size();
      }
    };
    std::int64_t rows = 0;
    for (const auto& run : job.tensor.rows) rows += run.count;
    if (rows == 0) return;
    const std::uint64_t elements = element_count(job.tensor.shape).value_or(0) / static_cast<std::uint64_t>(rows);
    const Storage& stored = job.first().data->storage;
    const std::uint64_t row_bytes =
        stored.block ? elements / static_cast<std::uint64_t>(ggml_type_info(*stored.block).block_elements) *
                           static_cast<std::uint64_t>(ggml_type_info(*stored.block).block_bytes)
                     : job.first().data->bytes.size() * elements / element_count(job.first().shape).value_or(1);
    for (const auto& run : job.tensor.rows) {
      const auto bytes = job.from[run.source]->data->bytes.subspan(static_cast<std::uint64_t>(run.first) * row_bytes,
                                                                   static_cast<std::uint64_t>(run.count) * row_bytes);
      if (bytes.size() >= kPart) {
        write(gathered);
        gathered.clear();
        write(bytes);
        continue;
      }
      gathered.insert(gathered.end(), bytes.begin(), bytes.end());
      if (gathered.size() < kPart) continue;
      write(gathered);
      gathered.clear();
    }
    write(gathered);
  }

  template <typename Writer>
  void expand_and_pack(Writer& writer, const Job& job) {
    const std::vector<std::int64_t>& shape = job.tensor.shape;
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    const auto count = static_cast<std::int64_t>(element_count(shape).value_or(0));
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
        job.tensor.values(first + begin, end - begin, some);
        const Status done = quantize(job.type, some, out);
        if (!done) throw Failure(done.error().inside(where(job.first())));
      });
      writer.write(job.tensor.name, std::span(packed).first(static_cast<std::size_t>(here * row_bytes))).value();
      report_.bytes += static_cast<std::uint64_t>(here * row_bytes);
      const std::uint64_t reached =
          job.stored_bytes() / static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(first + here);
      advance(reached - counted);
      counted = reached;
    }
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
      const Storage& stored = job.first().data->storage;
      const auto dtype = job.copy ? stored.dtype : ggml_plain_dtype(job.type);
      const std::string name = dtype ? std::string(dtype_info(*dtype).safetensors) : stored.name;
      specs.push_back({job.tensor.name, name, job.tensor.shape});
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
    if (options_.check) options_.check(directory.path());
    directory.commit().value();
  }

  void write_single() {
    // One file appears as a directory does: written beside its target, flushed, renamed.
    const fs::path parent = fs::absolute(target_).parent_path();
    io::remove_stale_files(target_);
    const std::string stem = cat(target_.filename().string(), ".tmp-", static_cast<std::int64_t>(::getpid()));
    const fs::path temporary = parent / (stem + (container_ == Container::gguf ? ".gguf" : ".safetensors"));
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
    if (options_.check) options_.check(temporary);
    fs::rename(temporary, target_);
    io::sync_directory(parent).value();
  }

  [[nodiscard]] std::vector<GgufTensorSpec> gguf_specs() const {
    std::vector<GgufTensorSpec> specs;
    for (const Job& job : jobs_) specs.push_back({job.tensor.name, job.type, job.tensor.shape});
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
  std::map<std::string, const LogicalTensor*> by_name_;
  std::vector<Job> jobs_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  ConvertReport report_;
};

}  // namespace

Result<std::vector<TargetTensor>> tensors_as_stored(const CheckpointSource& source) {
  return catching([&] {
    std::vector<TargetTensor> out;
    for (const LogicalTensor& tensor : logical_tensors(source).value()) {
      out.push_back(
          {tensor.name, tensor.shape, {tensor.name}, {{0, 0, rows_of(tensor)}}, [&source, tensor](auto&&... at) {
             const Status read = read_rows_f32(tensor, at...);
             if (!read) throw Failure(read.error().inside(place_of(source, tensor)));
           }});
    }
    return out;
  });
}

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
