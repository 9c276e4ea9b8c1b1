// Bytes as a sentencepiece model file: an Error, or a tokenizer that keeps the laws of tokenizers.
#include "tokenizer_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tern::fuzz::check(tern::tokenizer::Tokenizer::from_sentencepiece(bytes, "fuzz"));
  return 0;
}
