#include "checkpoint/plane_finder.h"

#include <limits>

#include "base/dtype.h"
#include "base/strings.h"

namespace tern::checkpoint {

std::optional<io::JsonField> quantization_config(const CheckpointSource& source) {
  if (source.config() == nullptr) return std::nullopt;
  const io::JsonField config(*source.config(), (source.directory() / "config.json").string(), kRestore);
  auto found = config.find("quantization_config");
  return found ? found : config.find("compression_config");
}

PlaneFinder::PlaneFinder(const CheckpointSource& source) : source_(source), quantization_(quantization_config(source)) {
  if (quantization_) method_ = quantization_->text("quant_method", "");
}

std::int64_t PlaneFinder::setting(const char* key, std::int64_t otherwise) const {
  return quantization_ ? quantization_->integer(key, otherwise) : otherwise;
}

std::string PlaneFinder::setting(const char* key, std::string_view otherwise) const {
  return quantization_ ? quantization_->text(key, otherwise) : std::string(otherwise);
}

const SourceTensor& PlaneFinder::plane(const std::string& name, std::initializer_list<tern_dtype> dtypes) {
  const SourceTensor* tensor = source_.require(name).value();
  for (const std::int64_t size : tensor->shape) {  // an empty tensor may claim anything; what follows multiplies sizes
    if (size > std::numeric_limits<std::int32_t>::max()) throw misfit(name, "dimensions below 2^31", cat(size));
  }
  std::vector<std::string> names;
  for (const tern_dtype dtype : dtypes) {
    if (tensor->storage.dtype == dtype) {
      take(name);
      return *tensor;
    }
    names.emplace_back(dtype_name(dtype));
  }
  throw misfit(name, cat("dtype ", join(names, " or ")), tensor->storage.name);
}

void PlaneFinder::expect_shape(const SourceTensor& tensor, const std::vector<std::int64_t>& shape) const {
  if (tensor.shape != shape) throw misfit(tensor.name, cat("shape ", shape_text(shape)), shape_text(tensor.shape));
}

void PlaneFinder::expect_rank(const SourceTensor& tensor, std::size_t rank) const {
  if (tensor.shape.size() != rank) throw misfit(tensor.name, cat(rank, " dimensions"), shape_text(tensor.shape));
}

void PlaneFinder::expect_groups(const SourceTensor& scale, std::int64_t k, std::int64_t groups) const {
  if (k > 0 && groups > 0 && k % groups == 0) return;
  throw misfit(scale.name, cat("groups that divide ", k, " inputs"), cat(groups));
}

std::string PlaneFinder::where(const std::string& name) const {
  return cat(source_.path().string(), ": tensor \"", name, "\"");
}

Failure PlaneFinder::misfit(const std::string& name, const std::string& expected, const std::string& found) const {
  return Failure(data_error(where(name), expected, found, kRefetch));
}

}  // namespace tern::checkpoint
