// The hand-written scanners against the expressions that they stand for, under PCRE2.
#include <gtest/gtest.h>

#include "tok_corpus.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {
namespace {

TEST(SplitScanner, EqualsItsExpressionUnderPcre2) {
  ASSERT_EQ(known_patterns().size(), 5U);
  for (const std::string_view pattern : known_patterns()) {
    const Regex regex(pattern, false, "test");
    const auto grammar = known_grammar(pattern);
    ASSERT_TRUE(grammar.has_value());
    for (std::uint64_t n = 0; n < 2000; ++n) {
      const std::string text = to_valid_utf8(corpus::string(n));
      std::vector<Range> scanned;
      std::vector<Range> matched;
      scan_splits(*grammar, text, 0, scanned);
      regex.find_all(text, matched);
      ASSERT_EQ(scanned, matched) << "string " << n << " under " << pattern;
    }
  }
}

// A run of a million characters must take time in proportion: each scanner reads a character a bounded number of times.
TEST(SplitScanner, LongRunsAreOneMatch) {
  const auto grammar = known_grammar(kGpt2Pattern);
  for (const char c : {'a', '1', '!', ' '}) {
    const std::string text(1000000, c);
    std::vector<Range> scanned;
    scan_splits(*grammar, text, 0, scanned);
    EXPECT_EQ(scanned, (std::vector<Range>{{0, text.size()}})) << c;
  }
}

}  // namespace
}  // namespace tern::tokenizer
