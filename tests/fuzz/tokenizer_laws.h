// What holds for any tokenizer that was accepted, whatever bytes it came from.
#pragma once

#include <string>
#include <string_view>

#include "memory_file.h"
#include "tokenizer/tokenizer.h"

namespace tern::fuzz {

inline constexpr std::string_view kSample = "Hello w\xC3\xB6rld 123\n  <s> x\xFF";

// Encoding does not depend on whether offsets are asked for, and a stream gives what decoding at once gives.
inline void check(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  try {
    const auto encoding = tokenizer.encode_with_offsets(text, true);
    require(encoding.ids == tokenizer.encode(text, true), "offsets change no id");
    require(encoding.ids.size() == encoding.offsets.size(), "each id has an offset");
    tokenizer::IncrementalDecoder decoder(tokenizer, false);
    std::string streamed;
    for (const tokenizer::TokenId id : encoding.ids) streamed += decoder.push(id);
    streamed += decoder.flush();
    require(streamed == tokenizer.decode(encoding.ids, false), "a stream gives what decoding at once gives");
  } catch (const Failure&) {
    // a vocabulary that cannot express the text, or a regular expression beyond its limits
  }
}

// An Error that says something, or a tokenizer that keeps the laws.
inline void check(const Result<tokenizer::Tokenizer>& tokenizer) {
  if (tokenizer.ok()) return check(*tokenizer, kSample);
  require(!tokenizer.error().line().empty(), "an error says something");
}

}  // namespace tern::fuzz
