// Any bytes as tokenizer.json, a sentencepiece model, or text under a fixed tokenizer: an Error or a tokenizer whose
// encoding and streaming hold together, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "text/tokenizer.h"

namespace {

using tern::text::IncrementalDecoder;
using tern::text::TokenId;
using tern::text::Tokenizer;

constexpr std::string_view kByteLevel =
    R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true},
 "decoder": {"type": "ByteLevel"}, "added_tokens": [{"content": "<s>", "special": true, "lstrip": true, "rstrip": true}],
 "model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4},
 "merges": ["a b", "\u0120 a"]}})";

// Encoding must not depend on whether offsets are asked for, and a stream must give what decoding at once gives.
void check(const Tokenizer& tokenizer, std::string_view text) {
  try {
    const auto encoding = tokenizer.encode_with_offsets(text, true);
    if (encoding.ids != tokenizer.encode(text, true) || encoding.ids.size() != encoding.offsets.size()) std::abort();
    IncrementalDecoder decoder(tokenizer, false);
    std::string streamed;
    for (const TokenId id : encoding.ids) streamed += decoder.push(id);
    streamed += decoder.flush();
    if (streamed != tokenizer.decode(encoding.ids, false)) std::abort();
  } catch (const tern::Failure&) {
    // a vocabulary that cannot express the text, or a regular expression beyond its limits
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view sample = "Hello w\xC3\xB6rld 123\n  <s> x\xFF";
  switch (data[0] % 3) {
    case 0: {
      const auto tokenizer = Tokenizer::from_json(bytes, "fuzz");
      if (tokenizer.ok()) check(*tokenizer, sample);
      break;
    }
    case 1: {
      const auto tokenizer = Tokenizer::from_sentencepiece(bytes, "fuzz");
      if (tokenizer.ok()) check(*tokenizer, sample);
      break;
    }
    default: {
      static const Tokenizer tokenizer = Tokenizer::from_json(kByteLevel, "fixed").value();
      check(tokenizer, bytes);
    }
  }
  return 0;
}
