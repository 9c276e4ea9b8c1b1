// Any bytes as tokenizer.json (a first byte with 0 modulo 3), as a sentencepiece model (1), or as text under a fixed
// tokenizer (2): an Error or a tokenizer whose encoding and streaming hold together, never a crash.
#include "tokenizer_laws.h"

namespace {

using tern::tokenizer::Tokenizer;

constexpr std::string_view kByteLevel =
    R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true},
 "decoder": {"type": "ByteLevel"}, "added_tokens": [{"content": "<s>", "special": true, "lstrip": true, "rstrip": true}],
 "model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4},
 "merges": ["a b", "\u0120 a"]}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    tern::fuzz::check(Tokenizer::from_json(bytes, "fuzz"));
  } else if (data[0] % 3 == 1) {
    tern::fuzz::check(Tokenizer::from_sentencepiece(bytes, "fuzz"));
  } else {
    static const Tokenizer tokenizer = Tokenizer::from_json(kByteLevel, "fixed").value();
    tern::fuzz::check(tokenizer, bytes);
  }
  return 0;
}
