// Bytes as a GGUF file: opening ends with an Error or with views that can all be read.
#include <vector>

#include "checkpoint/dequantize.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_writer.h"
#include "memory_file.h"

namespace {

using namespace tern::checkpoint;

void read_value(const GgufValue& value) {
  const auto integers = value.integers();
  const auto numbers = value.numbers();
  const auto texts = value.texts();
  tern::fuzz::require(!integers || integers->size() == value.count, "an array has as many elements as it says");
  tern::fuzz::require(!texts || texts->size() == value.count, "an array has as many strings as it says");
  (void)numbers;
  (void)value.integer();
  (void)value.number();
  (void)value.boolean();
  (void)value.text();
}

void read_tensor(const GgufTensor& tensor) {
  volatile unsigned sum = 0;  // reads every byte
  for (std::byte byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
  const auto count = element_count(tensor.shape);
  tern::fuzz::require(count.has_value(), "an accepted shape has a count");
  if (*count > 65536 || !can_dequantize(tensor.type)) return;
  std::vector<float> values(static_cast<std::size_t>(*count));
  tern::fuzz::require(dequantize(tensor.type, tensor.bytes, values).ok(), "an accepted tensor dequantises");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tern::fuzz::MemoryFile file(data, size);
  const auto gguf = Gguf::open(file.path());
  if (!gguf) {
    tern::fuzz::require(!gguf.error().line().empty(), "an error says something");
    return 0;
  }
  GgufMetadata again;
  for (const auto& [key, value] : gguf->metadata()) {
    read_value(value);
    again.set(key, value);
  }
  tern::fuzz::require(again.size() == gguf->metadata().size() && again.encode().size() <= size,
                      "metadata copies as it is");
  for (const GgufTensor& tensor : gguf->tensors()) read_tensor(tensor);
  return 0;
}
