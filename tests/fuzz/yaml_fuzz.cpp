// Bytes as YAML: an Error with a place, or a value that JSON can hold.
#include "io/yaml.h"

#include "io/json.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = tern::io::parse_yaml({reinterpret_cast<const char*>(data), size}, "f");
  if (!value) {
    tern::fuzz::require(value.error().line().starts_with("f"), "an error says where");
    return 0;
  }
  tern::fuzz::require(tern::io::parse_json(tern::io::write_json(*value), "f").ok(), "a value is JSON");
  return 0;
}
