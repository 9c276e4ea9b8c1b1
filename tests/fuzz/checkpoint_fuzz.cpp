// Bytes as a Hugging Face directory: the text up to the first NUL is config.json, up to the second the index (where
// there is any), the rest model.safetensors. What is accepted can be gathered into planes and read.
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "checkpoint/logical_tensors.h"
#include "memory_file.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace tern::checkpoint;

constexpr const char* kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTensors = "model.safetensors";

void read(const CheckpointSource& source) {
  const auto all = logical_tensors(source);
  if (!all) return;
  for (const LogicalTensor& tensor : *all) {
    const auto count = element_count(tensor.shape);
    tern::fuzz::require(count.has_value(), "an accepted shape has a count");
    if (*count == 0 || *count > 65536) continue;
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    std::vector<float> values(static_cast<std::size_t>(*count));
    (void)read_rows_f32(tensor, 0, static_cast<std::int64_t>(*count) / columns, values).ok();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\0');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\0', first + 1);
  if (second == std::string_view::npos) return 0;
  static const tern::test::TempDir folder;
  folder.write(kConfig, text.substr(0, first));
  const std::string_view index = text.substr(first + 1, second - first - 1);
  if (!index.empty()) folder.write(kIndex, index);
  folder.write(kTensors, text.substr(second + 1));
  const auto source = CheckpointSource::open(folder.path());
  if (source) read(*source);
  for (const char* name : {kConfig, kIndex, kTensors}) folder.remove(name);
  return 0;
}
