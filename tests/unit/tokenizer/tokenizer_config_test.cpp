// What published tokenizer_config.json files and the templates beside them say, in each of their ways.
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {
namespace {

class Published : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("tokenizer.json", R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}],
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  }
  [[nodiscard]] TokenizerConfig config() const { return Tokenizer::from_directory(folder_.path()).value().config(); }
  test::TempDir folder_;
};

// Llama 2 and Qwen: tokens as objects, null for none, no limit as 1e30, and fields that are kept and not read.
TEST_F(Published, TokensAreTextsObjectsOrNull) {
  folder_.write("tokenizer_config.json", R"({"add_bos_token": true, "added_tokens_decoder": {"0": {"content": "<unk>"}},
    "additional_special_tokens": ["<|im_start|>"], "extra_special_tokens": {}, "legacy": false, "sp_model_kwargs": {},
    "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": false, "normalized": false}, "eos_token": "<s>",
    "pad_token": null, "unk_token": null, "split_special_tokens": false, "spaces_between_special_tokens": false,
    "clean_up_tokenization_spaces": false, "errors": "replace", "model_max_length": 1000000000000000019884624838656,
    "processor_class": "LlavaProcessor", "tokenizer_class": "LlamaTokenizer", "use_default_system_prompt": false})");
  const TokenizerConfig read = config();
  EXPECT_EQ(read.bos.content, "<s>");
  EXPECT_EQ(read.eos.content, "<s>");
  EXPECT_EQ(read.pad.content, "");
  EXPECT_EQ(read.model_max_length, 0);
  EXPECT_EQ(read.tokenizer_class, "LlamaTokenizer");
  EXPECT_EQ(read.chat_template, "");
}

// Command R and Hermes have several templates by name; a file beside it takes the place of all.
TEST_F(Published, TemplatesAreATextAListOrAFile) {
  folder_.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
    {"name": "default", "template": "usual"}]})");
  EXPECT_EQ(config().chat_template, "usual");
  ASSERT_EQ(config().named_chat_templates.size(), 1U);
  EXPECT_EQ(config().named_chat_templates.front().second, "tools");
  folder_.write("chat_template.jinja", "of the file");
  EXPECT_EQ(config().chat_template, "of the file");
}

// A processor's template is that of a model whose tokenizer has none.
TEST_F(Published, AProcessorsTemplateStandsIn) {
  folder_.write("chat_template.json", R"({"chat_template": "of the processor"})");
  EXPECT_EQ(config().chat_template, "of the processor");
  folder_.write("tokenizer_config.json", R"({"chat_template": "of the tokenizer"})");
  EXPECT_EQ(config().chat_template, "of the tokenizer");
  folder_.write("tokenizer_config.json", "{}");
  folder_.write("chat_template.json", R"({"chat_template": 7})");
  const auto refused = Tokenizer::from_directory(folder_.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().line().find("chat_template.json: field \"chat_template\": expected an array, found 7"),
            std::string::npos)
      << refused.error().line();
}

}  // namespace
}  // namespace tern::tokenizer
