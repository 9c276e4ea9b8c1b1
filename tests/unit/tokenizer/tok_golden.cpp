// Encodings equal to those that Hugging Face's `tokenizers` gave (script/golden.d/tokenizers.py made the files): ids,
// offsets and decoded text of 20,000 strings a tokenizer, by digest; and streaming equal to decoding at once.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tok_corpus.h"
#include "tok_files.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {
namespace {

const std::filesystem::path kData = std::filesystem::path(TERN_TEST_DATA) / "tokenizers";
constexpr std::uint64_t kBlock = 100;

// The record of one encoding that the digests are over.
std::string record(const Encoding& encoding, const std::string& decoded) {
  std::string out;
  const auto add = [&](std::uint32_t value) { out.append(reinterpret_cast<const char*>(&value), 4); };
  add(static_cast<std::uint32_t>(encoding.ids.size()));
  for (const TokenId id : encoding.ids) add(static_cast<std::uint32_t>(id));
  for (const auto& [begin, end] : encoding.offsets) {
    add(begin);
    add(end);
  }
  add(static_cast<std::uint32_t>(decoded.size()));
  return out + decoded;
}

std::string full_line(const Encoding& encoding, const std::string& decoded) {
  std::ostringstream out;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) out << (i == 0 ? "" : ",") << encoding.ids[i];
  out << (encoding.ids.empty() ? "- " : " ");
  for (std::size_t i = 0; i < encoding.offsets.size(); ++i) {
    out << (i == 0 ? "" : ",") << encoding.offsets[i].first << '-' << encoding.offsets[i].second;
  }
  out << (encoding.offsets.empty() ? "- " : " ");
  for (const char c : decoded) {
    constexpr std::string_view digits = "0123456789abcdef";
    out << digits[static_cast<unsigned char>(c) >> 4] << digits[static_cast<unsigned char>(c) & 15];
  }
  if (decoded.empty()) out << '-';
  return out.str();
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, EqualsTheReference) {
  const auto plain = kData / (GetParam() + ".json");
  const bool packed = !std::filesystem::exists(plain);
  const auto tokenizer =
      Tokenizer::from_json(read_packed(packed ? kData / (GetParam() + ".json.zst") : plain), GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().line();
  std::istringstream lines(read_packed(kData / (GetParam() + ".golden")));
  std::uint64_t blocks = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::uint64_t number = 0;
    words >> kind >> number >> std::ws;
    std::string expected;
    std::getline(words, expected);
    if (kind == "full") {
      const std::string text = corpus::string(number);
      const Encoding encoding = tokenizer->encode_with_offsets(text, true);
      EXPECT_EQ(full_line(encoding, tokenizer->decode(encoding.ids, true)), expected) << "string " << number;
      continue;
    }
    ++blocks;
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (std::uint64_t n = number * kBlock; n < (number + 1) * kBlock; ++n) {
      const std::string text = corpus::string(n);
      for (const bool special : {false, true}) {
        std::string bytes = "error";
        try {
          const Encoding encoding = tokenizer->encode_with_offsets(text, special);
          bytes = record(encoding, tokenizer->decode(encoding.ids, special));
        } catch (const Failure&) {  // the reference has no answer either
        }
        XXH3_64bits_update(state, bytes.data(), bytes.size());
      }
    }
    char digest[17];
    std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state)));
    XXH3_freeState(state);
    EXPECT_EQ(digest, expected) << "strings " << number * kBlock << " to " << (number + 1) * kBlock - 1;
  }
  EXPECT_EQ(blocks, 200U);
}

TEST_P(Golden, StreamsWhatItDecodes) {
  const auto plain = kData / (GetParam() + ".json");
  const bool packed = !std::filesystem::exists(plain);
  const auto tokenizer =
      Tokenizer::from_json(read_packed(packed ? kData / (GetParam() + ".json.zst") : plain), GetParam());
  ASSERT_TRUE(tokenizer.ok());
  for (std::uint64_t n = 0; n < 500; ++n) {
    std::vector<TokenId> ids;
    try {
      ids = tokenizer->encode(corpus::string(n), true);
    } catch (const Failure&) {
      continue;
    }
    IncrementalDecoder decoder(*tokenizer, n % 2 == 0);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string part = decoder.push(id);
      ASSERT_EQ(valid_prefix(part), part.size()) << "half a character in string " << n;
      streamed += part;
    }
    streamed += decoder.flush();
    ASSERT_EQ(streamed, tokenizer->decode(ids, n % 2 == 0)) << "string " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Golden, testing::ValuesIn(stems(kData, ".golden")), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tern::tokenizer
