// Bytes as what says how a model is built: a GGUF file, else config.json up to the first NUL and adapter_config.json
// behind it. An Error, or a configuration that is written as config.json and read again is the same.

#include "io/json.h"
#include "memory_file.h"
#include "models/adapter.h"
#include "models/config.h"
#include "models/rope.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace tern::models;
using tern::fuzz::require;

const tern::test::TempDir& folder() {
  static const tern::test::TempDir made;
  static const bool filled = [] {
    made.write("model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
    return true;
  }();
  (void)filled;
  return made;
}

void check(const ModelConfig& config) {
  constexpr std::int64_t kLargest = 65536;  // keeps the frequencies small
  (void)config.num_parameters();
  if (config.head_dim <= kLargest)
    require(rope_frequencies(config).size() == static_cast<std::size_t>(config.rotary_dim) / 2, "a frequency a pair");
}

tern::Result<ModelConfig> read(const std::filesystem::path& path) {
  const auto source = tern::checkpoint::CheckpointSource::open(path);
  if (!source) return source.error();
  return read_config(*source);
}

void read_directory(std::string_view text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  folder().write("config.json", text.substr(0, end));
  folder().write("adapter_config.json", text.substr(std::min(end + 1, text.size())));
  if (const auto adapter = read_adapter_config(folder().path())) {
    const auto json = tern::io::parse_json(adapter_config_json(*adapter), "f");
    require(json.ok(), "an adapter's configuration is JSON");
  }
  const auto config = read(folder().path());
  if (!config) {
    require(!config.error().line().empty(), "an error says something");
    return;
  }
  check(*config);
  const std::string written = tern::io::write_json(config_json(*config, "float32"));
  folder().write("config.json", written);
  const auto again = read(folder().path());
  require(again.ok() && tern::io::write_json(config_json(*again, "float32")) == written, "what is written reads back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.starts_with("GGUF")) {
    read_directory(text);
    return 0;
  }
  const tern::fuzz::MemoryFile file(data, size);
  if (const auto config = read(file.path())) check(*config);
  return 0;
}
