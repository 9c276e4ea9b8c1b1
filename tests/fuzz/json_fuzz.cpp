// Bytes as JSON: an Error with a place, or a value that reads back equal from what is written of it.
#include "io/json.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = tern::io::parse_json({reinterpret_cast<const char*>(data), size}, "f");
  if (!value) {
    tern::fuzz::require(value.error().line().starts_with("f"), "an error says where");
    return 0;
  }
  const auto again = tern::io::parse_json(tern::io::write_json(*value), "f");
  tern::fuzz::require(again.ok() && again->dump() == value->dump(), "a value reads back equal");
  return 0;
}
