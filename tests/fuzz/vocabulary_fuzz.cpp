// Bytes as a GGUF file whose metadata hold a vocabulary: an Error, or a tokenizer that keeps the laws of tokenizers.
#include "tokenizer/gguf/tokenizer_gguf.h"

#include "tokenizer_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tern::fuzz::MemoryFile file(data, size);
  const auto gguf = tern::checkpoint::Gguf::open(file.path());
  if (!gguf) return 0;
  const auto vocabulary = tern::tokenizer::read_gguf_vocabulary(*gguf);
  if (!vocabulary) {
    tern::fuzz::require(!vocabulary.error().line().empty(), "an error says something");
    return 0;
  }
  tern::fuzz::check(tern::tokenizer::Tokenizer::from_gguf(*vocabulary));
  return 0;
}
