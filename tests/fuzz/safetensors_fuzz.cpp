// Bytes as a safetensors file: opening ends with an Error or with tensors that fill the file.
#include "checkpoint/safetensors.h"

#include "checkpoint/ggml_types.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tern::fuzz::MemoryFile file(data, size);
  const auto opened = tern::checkpoint::Safetensors::open(file.path());
  if (!opened) {
    tern::fuzz::require(!opened.error().line().empty(), "an error says something");
    return 0;
  }
  volatile unsigned sum = 0;  // reads every byte
  std::size_t bytes = 0;
  for (const auto& tensor : opened->tensors()) {
    for (std::byte byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
    bytes += tensor.bytes.size();
    tern::fuzz::require(tern::checkpoint::element_count(tensor.shape).has_value(), "an accepted shape has a count");
    tern::fuzz::require(opened->tensor(tensor.name) != nullptr, "a tensor is found by its name");
  }
  tern::fuzz::require(bytes < size, "tensors lie inside the file");
  return 0;
}
