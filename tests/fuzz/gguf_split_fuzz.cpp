// Bytes as the second file of a split GGUF set whose first is sound: an Error, or tensors that can all be read.
#include "checkpoint/dequantize.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_writer.h"
#include "memory_file.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace tern::checkpoint;

constexpr const char* kFirst = "set-00001-of-00002.gguf";
constexpr const char* kSecond = "set-00002-of-00002.gguf";

void write_first(const std::filesystem::path& path) {
  GgufMetadata metadata;
  metadata.set("split.no", std::uint32_t{0});
  metadata.set("split.count", std::uint32_t{2});
  metadata.set("split.tensors.count", std::int32_t{2});
  GgufWriter writer = GgufWriter::create(path, metadata, {{"first", GgmlType::f32, {2}}}).value();
  writer.write("first", std::vector<std::byte>(8)).value();
  writer.finish().value();
}

const tern::test::TempDir& folder() {
  static const tern::test::TempDir made;
  static const bool filled = (write_first(made.path() / kFirst), true);
  (void)filled;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  folder().write(kSecond, {reinterpret_cast<const char*>(data), size});
  const auto gguf = Gguf::open(folder().path() / kFirst);
  if (!gguf) {
    tern::fuzz::require(!gguf.error().line().empty(), "an error says something");
    return 0;
  }
  tern::fuzz::require(gguf->tensors().size() == 2, "as many tensors as the set says");
  for (const GgufTensor& tensor : gguf->tensors()) {
    const auto count = element_count(tensor.shape);
    tern::fuzz::require(count.has_value(), "an accepted shape has a count");
    if (*count > 65536 || !can_dequantize(tensor.type)) continue;
    std::vector<float> values(static_cast<std::size_t>(*count));
    tern::fuzz::require(dequantize(tensor.type, tensor.bytes, values).ok(), "an accepted tensor dequantises");
  }
  return 0;
}
