#include "session/end_tokens.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "tests/temp_dir.h"

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

class EndTokens : public ::testing::Test {
 protected:
  EndTokens() {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", "llama");
    write_gguf(metadata);
  }
  void write_gguf(const checkpoint::GgufMetadata& metadata) {
    auto writer = checkpoint::GgufWriter::create(dir_ / "m.gguf", metadata, {{"t", checkpoint::GgmlType::f32, {1}}});
    const std::array<std::byte, 4> zero{};
    writer->write("t", zero).value();
    writer->finish().value();
  }
  [[nodiscard]] Result<Ids> ids(const std::string& chat_template = {}) const {
    const auto source = checkpoint::CheckpointSource::open(dir_ / "m.gguf").value();
    return end_token_ids(config_, generation_, source, with_template(chat_template));
  }

  test::TempDir dir_;
  models::ModelConfig config_;
  GenerationConfig generation_;
};

TEST_F(EndTokens, ComeFromEveryPlaceThatNamesOne) {
  EXPECT_EQ(*ids(), Ids{});
  config_.eos_token_ids = {4, 9};
  EXPECT_EQ(*ids(), (Ids{4, 9}));
  generation_.eos_token_ids = {1, 4};
  EXPECT_EQ(*ids(), (Ids{1, 4, 9}));
  EXPECT_EQ(*ids("{{ messages[-1]['content'] }}<|eot|>"), (Ids{1, 2, 4, 9}));
  checkpoint::GgufMetadata metadata;
  metadata.set("tokenizer.ggml.eot_token_id", std::uint32_t{7});
  metadata.set("tokenizer.ggml.eom_token_id", std::uint32_t{8});
  write_gguf(metadata);
  EXPECT_EQ(*ids(), (Ids{1, 4, 7, 8, 9}));
}

TEST_F(EndTokens, AGgufsKeyThatIsNoIdIsAnError) {
  checkpoint::GgufMetadata metadata;
  metadata.set("tokenizer.ggml.eot_token_id", "end");
  write_gguf(metadata);
  const auto refused = ids();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().line().find("tokenizer.ggml.eot_token_id"), std::string::npos) << refused.error().line();
}

// The tokenizer's own is one of them too (tokenizer_config.json).
TEST_F(EndTokens, ComeFromTheTokenizer) {
  dir_.write("model/tokenizer.json",
             R"({"version":"1.0","added_tokens":[{"id":1,"content":"<|end|>","single_word":false,)"
             R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"model":)"
             R"({"type":"BPE","vocab":{"a":0},"merges":[]}})");
  dir_.write("model/tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  const auto source = checkpoint::CheckpointSource::open(dir_ / "m.gguf").value();
  const auto text = chat::load_model_text(dir_ / "model").value();
  EXPECT_EQ(*end_token_ids(config_, generation_, source, text), Ids{1});
}

}  // namespace
}  // namespace tern::session
