#include "session/end_tokens.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

using Ids = std::vector<std::int32_t>;

// <|end|> is 1, <|eot|> 2, <s> 3 and </s> 4; "[/S]" is a token of its own, 5, but not a special one.
tokenizer::Tokenizer a_tokenizer() {
  std::string added;
  for (const auto& [id, content, special] : {std::tuple{1, "<|end|>", true},
                                             {2, "<|eot|>", true},
                                             {3, "<s>", true},
                                             {4, "</s>", true},
                                             {5, "[/S]", false}}) {
    added += cat(added.empty() ? "" : ",", R"({"id":)", id, R"(,"content":")", content,
                 R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":)", special, "}");
  }
  return tokenizer::Tokenizer::from_json(
             cat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)", added,
                 R"(],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,)",
                 R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)",
                 R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"vocab":{"a":0},"merges":[]}})"),
             "tokenizer.json")
      .value();
}

chat::ModelText with_template(const std::string& source) {
  chat::ModelText text{a_tokenizer(), std::nullopt};
  if (!source.empty()) text.chat_template = chat::ChatTemplate::parse(source, "template").value();
  return text;
}

std::optional<std::int32_t> end_in(const std::string& after_answer) {
  return end_of_turn(with_template("{% for m in messages %}{{ '<s>' + m['role'] + ' ' + m['content'] }}" +
                                   after_answer + "{% endfor %}"));
}

TEST(EndOfTurn, IsTheSpecialTokenBehindTheAnswer) {
  EXPECT_EQ(end_in("{{ '<|eot|>' }}"), 2);
  EXPECT_EQ(end_in("{{ '\\n<|end|>\\n<s>' }}"), 1);
  EXPECT_EQ(end_in(""), std::nullopt) << "nothing marks the end";
  EXPECT_EQ(end_in("{{ 'a<|end|>' }}"), std::nullopt) << "text comes first";
  EXPECT_EQ(end_in("{{ '[/S]' }}"), std::nullopt) << "which may stand inside an answer";
  EXPECT_EQ(end_of_turn(with_template("")), std::nullopt);
  EXPECT_EQ(end_of_turn(with_template("{{ raise_exception('only with tools') }}")), std::nullopt);
  EXPECT_EQ(end_of_turn(with_template("{{ messages[0]['content'] }}<|end|>")), std::nullopt) << "no answer in it";
}

TEST(EndTokens, ComeFromEveryPlaceThatNamesOne) {
  models::ModelConfig config;
  GenerationConfig generation;
  const auto ids = [&](const std::string& chat_template = {}) {
    return end_token_ids(config, generation, with_template(chat_template));
  };
  EXPECT_EQ(ids(), Ids{});
  config.eos_token_ids = {4, 9};
  EXPECT_EQ(ids(), (Ids{4, 9}));
  generation.eos_token_ids = {1, 4};
  EXPECT_EQ(ids(), (Ids{1, 4, 9}));
  EXPECT_EQ(ids("{{ messages[-1]['content'] }}<|eot|>"), (Ids{1, 2, 4, 9}));
}

// The tokenizer's own is one of them too (tokenizer_config.json).
TEST(EndTokens, ComeFromTheTokenizer) {
  const test::TempDir dir;
  dir.write("model/tokenizer.json",
            R"({"version":"1.0","added_tokens":[{"id":1,"content":"<|end|>","single_word":false,)"
            R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"model":)"
            R"({"type":"BPE","vocab":{"a":0},"merges":[]}})");
  dir.write("model/tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  const auto text = chat::load_model_text(dir / "model").value();
  EXPECT_EQ(end_token_ids({}, {}, text), Ids{1});
}

}  // namespace
}  // namespace tern::session
