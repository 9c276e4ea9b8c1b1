// Bytes as tokenizer_config.json and as special_tokens_map.json: an Error that says where, or roles and templates.
#include "tokenizer/tokenizer_config.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {tern::tokenizer::read_tokenizer_config, tern::tokenizer::read_special_tokens_map}) {
    try {
      tern::tokenizer::TokenizerConfig config;
      read(text, "f", config);
      tern::fuzz::require(config.model_max_length >= 0, "a length is no negative number");
    } catch (const tern::Failure& failure) {
      tern::fuzz::require(failure.error().line().starts_with("f"), "an error says where");
    }
  }
  return 0;
}
