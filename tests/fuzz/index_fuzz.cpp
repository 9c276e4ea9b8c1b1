// Bytes as the index of a sharded checkpoint whose two shards are sound: an Error, or every tensor once, read from it.
#include "checkpoint/logical_tensors.h"
#include "memory_file.h"
#include "tests/support/temp_dir.h"

namespace {

// A safetensors file of one two-element F32 tensor.
std::string shard(const std::string& tensor) {
  std::string header = R"({")" + tensor + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string size(8, '\0');
  size[0] = static_cast<char>(header.size());
  return size + header + std::string(8, '\x3f');
}

const tern::test::TempDir& folder() {
  static const tern::test::TempDir made;
  static const bool filled = [] {
    made.write("a.safetensors", shard("x"));
    made.write("b.safetensors", shard("y"));
    return true;
  }();
  (void)filled;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::checkpoint;
  folder().write("model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
  const auto source = CheckpointSource::open(folder().path());
  if (!source) {
    tern::fuzz::require(!source.error().line().empty(), "an error says something");
    return 0;
  }
  tern::fuzz::require(source->tensors().size() <= 2, "no tensor but those of the shards");
  for (const SourceTensor& tensor : source->tensors()) {
    std::vector<float> values(2);
    tern::fuzz::require(source->read_f32(tensor, values).ok(), "an accepted tensor reads");
  }
  return 0;
}
