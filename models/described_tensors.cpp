// The tensors that a model's weights would be, where only its config.json is here.
#include "base/dtype.h"
#include "models/loader.h"
#include "models/stored_tensors.h"

namespace tern::models {

std::vector<checkpoint::SourceTensor> described_tensors(const ModelConfig& config, tern_dtype dtype) {
  const std::vector<ParameterSpec> specs = parameters_of(config);
  std::vector<checkpoint::SourceTensor> tensors;
  for (const StoredTensor& tensor : stored_tensors(specs, Form::hugging_face)) {
    tensors.push_back(
        {tensor.name, tensor.shape, {dtype, std::nullopt, std::string(dtype_info(dtype).safetensors)}, {}});
  }
  return tensors;
}

}  // namespace tern::models
