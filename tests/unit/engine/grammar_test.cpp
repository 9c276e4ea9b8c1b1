// Structured output: what grammars let through is what constraints mean, token by token, and nothing hostile gets
// further than an error.
#include "engine/grammar.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "engine/token_bytes.h"
#include "tests/unit/engine/grammar_schemas.h"

namespace tern::engine {

namespace {

using Kind = Constraint::Kind;
using io::Json;
using test::Rng;

tokenizer::Tokenizer grammar_tokenizer(const std::string& name) {
  const std::string file = std::string(TERN_TEST_DATA) + "/tokenizers/" + name + ".json";
  std::ifstream in(file);
  const std::string json{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return tokenizer::Tokenizer::from_json(json, file).value();
}

class GrammarTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_grammars()) GTEST_SKIP() << "tern was built without xgrammar: run script/bootstrap, and configure again";
  }

  [[nodiscard]] std::shared_ptr<TokenMask> start(const Constraint& constraint) {
    return grammars_.compile(constraint).value()->start();
  }
  [[nodiscard]] std::string refused(const Constraint& constraint) {
    const auto made = grammars_.compile(constraint);
    if (made.ok()) return "compiled";
    EXPECT_EQ(made.error().kind, ErrorKind::data);
    return made.error().line();
  }
  [[nodiscard]] bool allowed(TokenMask& mask, std::int32_t token) {
    mask.fill(words_);
    return (words_[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1U) != 0;
  }
  // Tokens that spell the text, the longest first: a tokenizer may put a space before the whole.
  [[nodiscard]] std::vector<std::int32_t> spell(std::string_view text) const {
    std::vector<std::int32_t> ids;
    while (!text.empty()) {
      std::size_t best = 0;
      for (std::size_t id = 0; id < bytes_.size(); ++id) {
        const std::string& own = bytes_[id];
        if (text.starts_with(own) && own.size() > (best == 0 ? 0 : bytes_[best].size())) best = id;
      }
      EXPECT_NE(best, 0U) << text;
      if (best == 0) break;
      ids.push_back(static_cast<std::int32_t>(best));
      text.remove_prefix(bytes_[best].size());
    }
    return ids;
  }
  // Whether an answer of this text may be drawn, and end.
  [[nodiscard]] bool takes(const Constraint& constraint, const std::string& text) {
    const auto mask = start(constraint);
    for (const std::int32_t id : spell(text)) {
      if (!allowed(*mask, id)) return false;
      mask->accept(id);
    }
    return allowed(*mask, end_);
  }
  // What is drawn by chance, and ended as soon as it may be; "" where that takes too long.
  std::string walk(TokenMask& mask, Rng& rng) {
    std::string text;
    for (int step = 0; step < 600; ++step) {
      if (allowed(mask, end_)) {
        mask.accept(end_);
        EXPECT_TRUE(mask.complete());
        return text;
      }
      EXPECT_FALSE(mask.complete());
      std::vector<std::int32_t> may, closing;
      for (std::int32_t id = 0; id < static_cast<std::int32_t>(bytes_.size()); ++id) {
        if ((words_[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) == 0) continue;
        may.push_back(id);
        const std::string& own = bytes_[static_cast<std::size_t>(id)];
        if (own.size() == 1 && std::string("\"}],:0123456789").find(own) != std::string::npos) closing.push_back(id);
      }
      EXPECT_FALSE(may.empty()) << text;
      if (may.empty()) return "dead end";
      const auto& from = closing.empty() || rng() % 4 == 0 ? may : closing;
      const std::int32_t id = from[rng() % from.size()];
      mask.accept(id);
      text += bytes_[static_cast<std::size_t>(id)];
    }
    return "";
  }

  tokenizer::Tokenizer tokenizer_ = grammar_tokenizer(GetParam());
  std::int32_t end_ = tokenizer_.config().eos.id >= 0 ? tokenizer_.config().eos.id : 0;
  std::int64_t vocab_size_ = tokenizer_.vocab_size() + 7;  // a model has more rows than tokens
  Grammars grammars_{tokenizer_, {end_}, vocab_size_};
  std::vector<std::string> bytes_ = token_bytes(tokenizer_, vocab_size_);
  std::vector<std::uint32_t> words_ = std::vector<std::uint32_t>(static_cast<std::size_t>(vocab_size_ + 31) / 32);
};

TEST_P(GrammarTest, TokensSpellWhatTheyDecodeTo) {
  for (const std::string text : {"{\"a\": [1, \"é\"]}", "a b  c", "日本 🙂"}) {
    std::string joined;
    for (const std::int32_t id : tokenizer_.encode(text, false, false)) joined += bytes_[static_cast<std::size_t>(id)];
    if (joined.starts_with(" ") && !text.starts_with(" ")) joined.erase(0, 1);
    EXPECT_EQ(joined, text);
  }
}

// A thousand schemas over both tokenizers.
TEST_P(GrammarTest, SchemasTakeWhatIsValidAndNothingElse) {
  int valid = 0, invalid = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    const test::Case made = test::SchemaMaker(seed).document();
    const Constraint constraint{Kind::json_schema, made.schema.dump(), {}};
    for (const Json& one : made.valid) {
      ASSERT_TRUE(test::meets(made.schema, one, made.schema)) << made.schema << one;
      EXPECT_TRUE(takes(constraint, one.dump())) << made.schema << " should take " << one;
      valid += 1;
    }
    for (const Json& one : made.invalid) {
      EXPECT_FALSE(takes(constraint, one.dump())) << made.schema << " should refuse " << one;
      invalid += 1;
    }
  }
  EXPECT_GT(valid, 900);
  EXPECT_GT(invalid, 1500);
}

TEST_P(GrammarTest, WhatIsDrawnByChanceMeetsTheSchema) {
  Rng rng(7);
  int ended = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const test::Case made = test::SchemaMaker(seed).document();
    const std::string text = walk(*start({Kind::json_schema, made.schema.dump(), {}}), rng);
    if (text.empty()) continue;
    ended += 1;
    const auto value = io::parse_json(text, "answer");
    // JSON lets a map's key come twice; our parser doesn't.
    if (!value && value.error().line().find("each key once") != std::string::npos) continue;
    ASSERT_TRUE(value.ok()) << made.schema << "\n" << text << "\n" << value.error().line();
    EXPECT_TRUE(test::meets(made.schema, *value, made.schema)) << made.schema << "\n" << text;
  }
  EXPECT_GT(ended, 270);
}

TEST_P(GrammarTest, JsonObjects) {
  const Constraint object{Kind::json_object, "", {}};
  EXPECT_TRUE(takes(object, R"({"a": [1, {"b": null}], "c": "\u00e9\n"})"));
  EXPECT_TRUE(takes(object, "{}"));
  EXPECT_FALSE(takes(object, "[1]"));
  EXPECT_FALSE(takes(object, "{\"a\": 1"));
  EXPECT_FALSE(takes(object, "{} and more"));
}

TEST_P(GrammarTest, Choices) {
  const Constraint choice{Kind::choice, "", {"yes", "no \"way\"\n{1}", "yes please", "é\\"}};
  for (const std::string& one : choice.choices) EXPECT_TRUE(takes(choice, one)) << one;
  EXPECT_FALSE(takes(choice, "ye"));
  EXPECT_FALSE(takes(choice, "yes pleasey"));
  const auto mask = start(choice);
  for (const std::int32_t id : spell("yes")) mask->accept(id);
  EXPECT_FALSE(mask->complete());  // " please" may follow
  const auto whole = start({Kind::choice, "", {"ab"}});
  for (const std::int32_t id : spell("ab")) whole->accept(id);
  EXPECT_TRUE(whole->complete());
  EXPECT_TRUE(allowed(*whole, end_));
  EXPECT_EQ(refused({Kind::choice, "", {}}), "choice: expected at least one choice, found none; name one");
}

TEST_P(GrammarTest, Expressions) {
  const Constraint regex{Kind::regex, R"(^(\d{3}-){2}[^\s\d]+(?:x|y)?$)", {}};
  EXPECT_TRUE(takes(regex, "123-456-ab"));
  EXPECT_FALSE(takes(regex, "123-456-"));
  EXPECT_FALSE(takes(regex, "123-45-ab"));
  for (const char* broken : {"(?=a)b",
                             "(?!a)b",
                             "(?<=a)b",
                             "(?<!a)b",
                             "(?i)a",
                             "a\\bb",
                             "\\p{L}",
                             "(a)\\1",
                             "x^y",
                             "a$b",
                             "[a",
                             "a{3,2}",
                             "a++",
                             "(a",
                             "a)",
                             "[]",
                             "a{1,1000000}",
                             "((a{9}){9}){9}",
                             "(ab|c{100}){6}",
                             "\\",
                             "\\xg1",
                             "*"}) {
    EXPECT_NE(refused({Kind::regex, broken, {}}), "compiled") << broken;
  }
  EXPECT_NE(refused({Kind::regex, std::string(5000, '('), {}}).find("nested"), std::string::npos);
  EXPECT_NE(refused({Kind::regex, std::string(50000, 'a'), {}}).find("50000 bytes"), std::string::npos);
}

TEST_P(GrammarTest, Ebnf) {
  const Constraint grammar{Kind::grammar, "root ::= item (\",\" item)*\nitem ::= [a-c]+ | \"(\" root \")\"\n", {}};
  EXPECT_TRUE(takes(grammar, "a,(bc,(a)),c"));
  EXPECT_FALSE(takes(grammar, "a,(b"));
  EXPECT_FALSE(takes(grammar, "d"));
  for (const char* broken : {"", "root ::= ", "root ::= other", "other ::= \"a\"", "root ::= \"a", "root ::= [z-a]",
                             "root ::= \"a\"{1,9999999}", "\xff\xfe", "root ::= (((", "root root root"}) {
    EXPECT_NE(refused({Kind::grammar, broken, {}}), "compiled") << broken;
  }
  EXPECT_NE(refused({Kind::grammar, "root ::= " + std::string(5000, '('), {}}).find("nested"), std::string::npos);
  EXPECT_NE(refused({Kind::grammar, std::string(70000, ' '), {}}).find("70000 bytes"), std::string::npos);
}

// A place that no token leads on from ends the answer, as something must be drawn.
TEST_P(GrammarTest, DeadEndsEndTheAnswer) {
  const auto mask = start({Kind::grammar, "root ::= \"a\" b | \"c\"\nb ::= b \"x\"\n", {}});
  for (const std::int32_t id : spell("a")) {
    if (allowed(*mask, id)) mask->accept(id);
  }
  EXPECT_TRUE(allowed(*mask, end_));
  EXPECT_FALSE(mask->complete());
}

TEST_P(GrammarTest, StructuralTags) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  const Constraint tag{
      Kind::structural_tag,
      R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"type":"tag",)"
      R"("begin":"<f>","content":{"type":"json_schema","json_schema":)" +
          schema + R"(},"end":"</f>"}]}})",
      {}};
  const Constraint older{
      Kind::structural_tag,
      R"({"structures":[{"begin":"<f>","schema":)" + schema + R"(,"end":"</f>"}],"triggers":["<f"]})",
      {}};
  for (const Constraint& one : {tag, older}) {
    EXPECT_TRUE(takes(one, "I call <f>{\"a\": 3}</f> now"));
    EXPECT_FALSE(takes(one, "I call <f>{\"b\": 3}</f> now"));
  }
  EXPECT_NE(refused({Kind::structural_tag, "{}", {}}).find("expected an object with \"format\""), std::string::npos);
  EXPECT_NE(refused({Kind::structural_tag, "nonsense", {}}), "compiled");
  EXPECT_NE(refused({Kind::structural_tag, R"({"format":{"type":"magic"}})", {}}).find("$.format.type"),
            std::string::npos);
  EXPECT_NE(refused({Kind::structural_tag, R"({"format":{"type":"any_text","colour":1}})", {}}).find("\"colour\""),
            std::string::npos);
  EXPECT_NE(refused({Kind::structural_tag, R"j({"format":{"type":"regex","pattern":"(?=a)"}})j", {}}).find("(?=a"),
            std::string::npos);
  EXPECT_NE(refused({Kind::structural_tag,
                     R"({"structures":[{"begin":"<f>","schema":{"not":{}},"end":"x"}],"triggers":["<"]})",
                     {}})
                .find("\"not\""),
            std::string::npos);
  EXPECT_NE(refused({Kind::structural_tag, R"({"structures":[{"begin":"<f>"}],"triggers":["<"]})", {}})
                .find("begin, schema and end"),
            std::string::npos);
}

TEST_P(GrammarTest, RecursionThatEndsIsFine) {
  const Constraint tree{Kind::json_schema,
                        R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},)"
                        R"("next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}})",
                        {}};
  EXPECT_TRUE(takes(tree, R"({"v":1,"next":{"v":2,"next":null}})"));
  EXPECT_FALSE(takes(tree, R"({"v":1,"next":{"v":2}})"));
}

TEST_P(GrammarTest, CompiledOnceForEqualConstraints) {
  Grammars small(tokenizer_, {end_}, vocab_size_, 20'000);
  const Constraint one{Kind::regex, "[a-z]{1,9}", {}};
  const auto first = small.compile(one).value();
  EXPECT_EQ(first, small.compile(one).value());
  EXPECT_NE(first, small.compile({Kind::grammar, "root ::= [a-z]{1,9}", {}}).value());
  for (int i = 0; i < 300; ++i) (void)small.compile({Kind::regex, "[a-z]{1,9}x" + std::to_string(i), {}}).value();
  EXPECT_NE(first, small.compile(one).value());  // it went, as room was needed
}

TEST_P(GrammarTest, ManyThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> made(4);
  for (std::size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([this, t, &made] {
      for (unsigned seed = 0; seed < 30; ++seed) {
        const Json schema = test::SchemaMaker(seed % 20).document().schema;
        made[t] += grammars_.compile({Kind::json_schema, schema.dump(), {}}).ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : made) EXPECT_EQ(count, 30);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GrammarTest, ::testing::Values("bl-smollm", "llama"),
                         [](const auto& info) { return info.index == 0 ? "ByteLevel" : "ByteFallback"; });

TEST(GrammarAbsent, AConstrainedRequestIsAnError) {
  if (has_grammars()) GTEST_SKIP() << "tern was built with xgrammar";
  Grammars grammars(grammar_tokenizer("bl-smollm"), {0}, 300);
  EXPECT_EQ(
      grammars.compile({Kind::json_object, "", {}}).error().line(),
      "this tern was built without xgrammar, so answers can't be constrained; run script/bootstrap where PyPI can be "
      "reached, and build again.");
}

}  // namespace

}  // namespace tern::engine
