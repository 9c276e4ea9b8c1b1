#include "models/parameter_reader.h"

#include <algorithm>
#include <stdexcept>

#include "base/half.h"
#include "base/strings.h"

namespace tern::models {
namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements that are worth a thread

std::string shape_text(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(cat(size));
  return cat("[", join(sizes, ", "), "]");
}

}  // namespace

ParameterReader::ParameterReader(const checkpoint::CheckpointSource& source) : source_(source) {
  for (auto& tensor : checkpoint::logical_tensors(source).value()) {
    std::string name = tensor.name;
    tensors_.emplace(std::move(name), std::move(tensor));
  }
}

const checkpoint::LogicalTensor& ParameterReader::find(const ParameterSpec& spec) const {
  const std::string& name = stored_name(source_, spec);
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    (void)source_.require(name).value();  // says which name is near
    throw std::logic_error(cat("tensor ", name, " is a part of a quantised weight"));
  }
  if (found->second.shape != spec.shape) {
    throw Failure(data_error(cat(source_.path().string(), ": tensor ", name), cat("the shape ", shape_text(spec.shape)),
                             shape_text(found->second.shape),
                             "config.json and the weights belong to different models"));
  }
  return found->second;
}

std::vector<std::int64_t> ParameterReader::rows(const ParameterSpec& spec) const {
  return source_.gguf() != nullptr ? gguf_rows(spec) : std::vector<std::int64_t>();
}

std::vector<float> ParameterReader::read(const ParameterSpec& spec) {
  const checkpoint::LogicalTensor& tensor = find(spec);
  const std::int64_t columns = spec.shape.back();
  std::int64_t count = 1;
  for (const std::int64_t size : spec.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  const auto check = [&](const Status& status) {
    if (!status) throw Failure(status.error().inside(source_.path().string()));
  };
  pool_.parallel_for(
      count / columns, std::max<std::int64_t>(kGrain / columns, 1),
      [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        check(checkpoint::read_rows_f32(tensor, begin, end - begin,
                                        std::span(values).subspan(static_cast<std::size_t>(begin * columns),
                                                                  static_cast<std::size_t>((end - begin) * columns))));
      });
  source_.intact().value();
  const auto order = rows(spec);
  if (order.empty()) return values;
  const auto width = static_cast<std::size_t>(count) / order.size();
  std::vector<float> ordered(values.size());
  for (std::size_t row = 0; row < order.size(); ++row) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(order[row]) * width), width,
                ordered.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  return ordered;
}

std::vector<std::byte> rounded(const std::vector<float>& values, tern_dtype dtype) {
  if (dtype == TERN_F32) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::uint16_t> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), dtype == TERN_BF16 ? float_to_bf16 : float_to_fp16);
  const auto bytes = std::as_bytes(std::span(narrow));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tern::models
