#include "models/parameter_reader.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/half.h"
#include "base/strings.h"
#include "models/new_tokens.h"
#include "models/text_part.h"

namespace tern::models {
namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements that are worth a thread

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

using TensorNames = std::function<std::string(const std::string& tensor)>;

TensorNames language_model_names(const checkpoint::CheckpointSource& source, std::string_view prefix) {
  if (has_text_part(source)) return text_part_name;
  // A class without a head saves its modules without "model." before their names.
  const bool is_bare = source.gguf() == nullptr && source.find("embed_tokens.weight") != nullptr;
  return [is_bare, prefix](const std::string& tensor) {
    std::string name = cat(is_bare ? "model." : "", tensor);
    if (!prefix.empty() && name.starts_with(prefix)) name.erase(0, prefix.size());
    return name;
  };
}

}  // namespace

ParameterReader::ParameterReader(const checkpoint::CheckpointSource& source, std::string_view prefix)
    : ParameterReader(source, language_model_names(source, prefix)) {}

ParameterReader::ParameterReader(const checkpoint::CheckpointSource& source, const TensorNames& name_of)
    : source_(source) {
  for (auto& tensor : checkpoint::logical_tensors(source).value()) {
    std::string name = name_of(tensor.name);
    if (name.empty()) {
      other_parts_.insert(part_of(tensor.name));
      continue;
    }
    tensors_.emplace(std::move(name), std::move(tensor));
  }
}

std::vector<const checkpoint::LogicalTensor*> ParameterReader::find(const ParameterSpec& spec) const {
  if (spec.added_rows > 0) return find(without_added_rows(spec));
  std::vector<const checkpoint::LogicalTensor*> out;
  for (const std::string& name : source_of(spec).tensors) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      (void)source_.require(name).value();  // says which name is near
      throw std::logic_error(cat("tensor ", name, " is a part of a quantised weight"));
    }
    const std::vector<std::int64_t> shape = stored_shape(spec, source_of(spec), out.size());
    // ggml drops outer dimensions of one.
    const bool is_gguf = form_of(source_) == Form::gguf;
    if (is_gguf ? without_ones(found->second.shape) != without_ones(shape) : found->second.shape != shape) {
      throw Failure(data_error(cat(source_.path().string(), ": tensor ", name), cat("the shape ", shape_text(shape)),
                               shape_text(found->second.shape),
                               "config.json and the weights belong to different models"));
    }
    out.push_back(&found->second);
  }
  return out;
}

const ParameterSource& ParameterReader::source_of(const ParameterSpec& spec) const {
  const ParameterSource& usual = source_in(spec, form_of(source_));
  if (form_of(source_) == Form::gguf || spec.published.tensors.empty()) return usual;
  const auto found = tensors_.find(spec.published.tensors.front());
  if (found == tensors_.end()) return usual;
  // Of one name they are told apart by how the numbers are packed: the usual one is not.
  const bool same_name = found->first == usual.tensors.front();
  return same_name && found->second.scheme.packing == TERN_PACK_NONE ? usual : spec.published;
}

void ParameterReader::require_known(std::span<const ParameterSpec> specs, const ModelConfig& config) const {
  std::set<std::string> known;
  for (const ParameterSpec& spec : specs) {
    const auto& names = source_of(spec).tensors;
    known.insert(names.begin(), names.end());
  }
  for (const auto& [name, tensor] : tensors_) {
    if (known.contains(name) || is_needless(source_, name, config)) continue;
    throw Failure(data_error(cat(source_.path().string(), ": tensor ", name),
                             cat("only tensors that ", config.architecture, " reads"), "one that it does not",
                             "the checkpoint is of another architecture, or its config.json is"));
  }
}

void ParameterReader::require_all(std::span<const ParameterSpec> specs, const ModelConfig& config) const {
  require_known(specs, config);
  for (const ParameterSpec& spec : specs) (void)find(spec);
}

std::vector<ParameterSpec> ParameterReader::found_of(std::span<const ParameterSpec> specs,
                                                     const ModelConfig& config) const {
  require_known(specs, config);
  std::vector<ParameterSpec> found;
  for (const ParameterSpec& spec : specs) {
    const auto& names = source_of(spec).tensors;
    if (std::none_of(names.begin(), names.end(), [&](const auto& name) { return tensors_.contains(name); })) continue;
    (void)find(spec);
    found.push_back(spec);
  }
  return found;
}

std::uint64_t ParameterReader::stored_bytes(const ParameterSpec& spec) const {
  std::uint64_t bytes = 0;
  for (const auto* tensor : find(spec)) bytes += tensor->stored_bytes();
  const ParameterSource& source = source_of(spec);
  if (source.tensor_rows == 0) return bytes;
  return bytes / static_cast<std::uint64_t>(source.tensor_rows) * static_cast<std::uint64_t>(matrix_sizes(spec).rows);
}

void ParameterReader::read_stored(const checkpoint::LogicalTensor& tensor, std::int64_t first, std::int64_t count,
                                  std::span<float> values) const {
  const Status read = checkpoint::read_rows_f32(tensor, first, count, values);
  if (!read) throw Failure(read.error().inside(source_.path().string()));
}

// Rows of a tensor's matrix, which the file keeps with its last two dimensions swapped.
void ParameterReader::read_transposed(const checkpoint::LogicalTensor& tensor, const MatrixSizes& sizes,
                                      const RowRun& run, std::span<float> values) {
  const std::lock_guard lock(mutex_);
  for (std::int64_t done = 0; done < run.count;) {
    const std::int64_t matrix = (run.first + done) / sizes.rows;
    const std::int64_t row = (run.first + done) % sizes.rows;
    if (tensor_ != &tensor || matrix_ != matrix) {
      std::vector<float> stored(static_cast<std::size_t>(sizes.rows * sizes.columns));
      read_stored(tensor, matrix * sizes.columns, sizes.columns, stored);
      kept_.resize(stored.size());
      transpose(stored, sizes.columns, sizes.rows, kept_);
      tensor_ = &tensor;
      matrix_ = matrix;
    }
    const std::int64_t some = std::min(run.count - done, sizes.rows - row);
    std::copy_n(kept_.begin() + row * sizes.columns, some * sizes.columns, values.begin() + done * sizes.columns);
    done += some;
  }
}

void ParameterReader::read_run(const ParameterSpec& spec, const RowRun& run, std::span<float> values) {
  const ParameterSource& source = source_of(spec);
  const checkpoint::LogicalTensor& tensor = tensors_.at(source.tensors[run.tensor]);
  const MatrixSizes sizes = matrix_sizes(spec);
  if (is_transposed_in(source, run.tensor)) {
    const std::int64_t rows = source.joined.empty() ? rows_of_tensor(source, sizes.rows) : source.joined[run.tensor];
    return read_transposed(tensor, {sizes.matrices, rows, sizes.columns}, run, values);
  }
  const std::int64_t last = tensor.shape.back();
  if (last == sizes.columns) return read_stored(tensor, run.first, run.count, values);
  // Elements of vectors, and rows that the file cuts further, are read whole.
  const std::lock_guard lock(mutex_);
  if (tensor_ != &tensor || matrix_ != -1) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    kept_.resize(static_cast<std::size_t>(count));
    read_stored(tensor, 0, count / last, kept_);
    tensor_ = &tensor;
    matrix_ = -1;
  }
  std::copy_n(kept_.begin() + run.first * sizes.columns, run.count * sizes.columns, values.begin());
}

void ParameterReader::read_woven(const ParameterSpec& spec, std::int64_t first, std::int64_t count,
                                 std::span<float> values) const {
  const ParameterSource& source = source_of(spec);
  const std::int64_t columns = matrix_sizes(spec).columns;
  const auto turns = static_cast<std::int64_t>(source.tensors.size());
  const std::int64_t of_tensor = columns / turns;
  std::vector<float> rows(static_cast<std::size_t>(count * of_tensor));
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const checkpoint::LogicalTensor& tensor = tensors_.at(source.tensors[static_cast<std::size_t>(turn)]);
    const std::int64_t cut = of_tensor / tensor.shape.back();  // rows of the file that are one
    read_stored(tensor, first * cut, count * cut, rows);
    for (std::int64_t at = 0; at < count * of_tensor; at += source.woven_columns) {
      const std::int64_t row = at / of_tensor, block = at % of_tensor / source.woven_columns;
      std::copy_n(rows.begin() + at, source.woven_columns,
                  values.begin() + row * columns + (block * turns + turn) * source.woven_columns);
    }
  }
}

void ParameterReader::read_with_added(const ParameterSpec& spec, std::int64_t first, std::int64_t count,
                                      const ParameterSource& as, std::span<float> values) {
  const ParameterSpec stored = without_added_rows(spec);
  const std::int64_t rows = stored.shape.front(), columns = matrix_sizes(spec).columns;
  const std::int64_t found = std::clamp<std::int64_t>(rows - first, 0, count);
  if (found > 0) read_rows(stored, first, found, as, values.first(static_cast<std::size_t>(found * columns)));
  if (found == count) return;
  const std::lock_guard lock(added_mutex_);
  std::vector<float>& added = added_[spec.name];
  if (added.empty()) {
    added = rows_of_new_tokens(spec, [&](std::int64_t begin, std::int64_t some, std::span<float> into) {
      read_rows(stored, begin, some, {}, into);
    });
  }
  std::copy_n(added.begin() + (first + found - rows) * columns, (count - found) * columns,
              values.begin() + found * columns);
}

void ParameterReader::read_rows(const ParameterSpec& spec, std::int64_t first, std::int64_t count,
                                const ParameterSource& as, std::span<float> values) {
  if (spec.added_rows > 0) return read_with_added(spec, first, count, as, values);
  (void)find(spec);
  const ParameterSource& source = source_of(spec);
  if (source.woven_columns > 0) return read_woven(spec, first, count, values);
  const std::int64_t columns = matrix_sizes(spec).columns;
  std::int64_t at = 0;  // row of the parameter at which the run begins
  for (const RowRun& run : row_runs(spec, source)) {
    const std::int64_t begin = std::max(at, first);
    const std::int64_t end = std::min(at + run.count, first + count);
    if (begin < end) {
      read_run(spec, {run.tensor, run.first + begin - at, end - begin},
               values.subspan(static_cast<std::size_t>((begin - first) * columns),
                              static_cast<std::size_t>((end - begin) * columns)));
    }
    at += run.count;
  }
  if (same_numbers(source, as)) return;
  to_parameter(source, columns, values);
  to_file(as, columns, values);
}

std::vector<float> ParameterReader::read(const ParameterSpec& spec) {
  const MatrixSizes sizes = matrix_sizes(spec);
  return read(spec, 0, sizes.matrices * sizes.rows);
}

std::vector<float> ParameterReader::read(const ParameterSpec& spec, std::int64_t first, std::int64_t count) {
  const std::int64_t columns = matrix_sizes(spec).columns;
  std::vector<float> values(static_cast<std::size_t>(count * columns));
  pool_.parallel_for(count, std::max<std::int64_t>(kGrain / columns, 1),
                     [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                       read_rows(spec, first + begin, end - begin, {},
                                 std::span(values).subspan(static_cast<std::size_t>(begin * columns),
                                                           static_cast<std::size_t>((end - begin) * columns)));
                     });
  source_.intact().value();
  return values;
}

std::vector<std::byte> rounded(std::string_view name, std::span<const float> values, tern_dtype dtype) {
  if (dtype == TERN_F32) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  if (dtype == TERN_F16) {
    const auto beyond = std::find_if(values.begin(), values.end(), [](float value) {
      return std::isfinite(value) && std::isinf(fp16_to_float(float_to_fp16(value)));
    });
    if (beyond != values.end()) {
      throw Failure(data_error(name, "numbers that float16 holds, up to 65504", cat(*beyond),
                               "give --torch_dtype float32 or bfloat16, whichever the device has"));
    }
  }
  std::vector<std::uint16_t> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), dtype == TERN_BF16 ? float_to_bf16 : float_to_fp16);
  const auto bytes = std::as_bytes(std::span(narrow));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tern::models
