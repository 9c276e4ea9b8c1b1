#include "models/adapter_file.h"

#include "checkpoint/checkpoint_source.h"

namespace tern::models {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<float> floats_of(const checkpoint::SafetensorsTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  checkpoint::to_f32(*tensor.dtype->dtype, tensor.bytes, values).value();
  return values;
}

}  // namespace tern::models
