#include "data/chat_encoder.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "data/dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/data/byte_tokenizer.h"

namespace tern::data {
namespace {

constexpr std::string_view kChatMl =
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}";

std::shared_ptr<const ChatEncoder> encoder(ChatEncoderOptions options = {}) {
  options.identity = "test";
  return ChatEncoder::create(byte_tokenizer(), chat::ChatTemplate::parse(std::string(kChatMl), "test").value(), options)
      .value();
}

Row parse(std::string_view json) {
  RawRow raw;
  raw.line = 3;
  raw.json = json;
  return Normalizer({}).row(raw, "rows.jsonl").value();
}

// The sample's text with what is learned in brackets, a weight other than 1 before them.
std::string shown(const Sample& sample) {
  tokenizer::IncrementalDecoder decoder(byte_tokenizer(), false);
  std::string out;
  float open = 0;
  for (std::size_t t = 0; t < sample.ids.size(); ++t) {
    if (sample.weights[t] != open) {
      if (open > 0) out += "]";
      if (sample.weights[t] > 0) out += sample.weights[t] == 1 ? "[" : cat(fixed(sample.weights[t], 2), "[");
      open = sample.weights[t];
    }
    out += decoder.push(sample.ids[t]);
  }
  return open > 0 ? out + "]" : out;
}

std::string shown(const ChatEncoder& with, std::string_view json) {
  const auto encoded = with.encode(parse(json));
  if (!encoded) return encoded.error().line();
  std::string out;
  for (const auto& sample : encoded->samples) out += (out.empty() ? "" : " / ") + shown(sample);
  return out;
}

constexpr std::string_view kTwoRounds =
    R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},
        {"role":"user","content":"c"},{"role":"assistant","content":"d"}]})";

TEST(ChatEncoder, EachAssistantTurnIsLearnedWithItsEnd) {
  EXPECT_EQ(shown(*encoder(), kTwoRounds),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>\n]");
}

TEST(ChatEncoder, LossScaleAndMessageWeights) {
  ChatEncoderOptions options;
  options.loss_scale = chat::LossScale::last_round;
  EXPECT_EQ(shown(*encoder(options), R"({"history":[["a","b"]],"query":"c","response":"d"})"),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>\n]");
  options.loss_scale = chat::LossScale::all;
  const auto all = encoder(options)->encode(parse(kTwoRounds)).value();
  for (std::size_t t = 0; t < all.samples[0].weights.size(); ++t) EXPECT_EQ(all.samples[0].weights[t], t == 0 ? 0 : 1);
  EXPECT_EQ(shown(*encoder(), R"({"messages":[{"role":"user","content":"a","loss":false},
      {"role":"assistant","content":"b","loss":0.5},{"role":"user","content":"c"},
      {"role":"assistant","content":"d","loss":false}]})"),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n0.50[b<|im_end|>\n]"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nd<|im_end|>\n");
  EXPECT_NE(shown(*encoder(), R"({"messages":[{"role":"user","content":"a","loss":true},
      {"role":"assistant","content":"b"}]})")
                .find("rows.jsonl:3: "),
            std::string::npos);
}

TEST(ChatEncoder, PlainTextGetsItsEndAndIsLearnedWhole) {
  ChatEncoderOptions options;
  options.use_chat_template = false;
  options.loss_scale = chat::LossScale::all;
  const auto plain = encoder(options);
  EXPECT_EQ(shown(*plain, R"({"text":"words"})"), "w[ords]");  // this tokenizer names no end token
  EXPECT_EQ(shown(*plain, R"({"messages":[{"role":"assistant","content":"words"}]})"), "w[ords]");
  EXPECT_EQ(shown(*plain, R"({"query":"ab","response":"cd"})"), "a[bcd]");
  options.loss_scale = chat::LossScale::every_turn;
  EXPECT_EQ(shown(*encoder(options), R"({"query":"ab","response":"cd"})"), "ab[cd]");
}

TEST(ChatEncoder, MaxLengthAndMedia) {
  ChatEncoderOptions options;
  options.max_length = 10;
  EXPECT_TRUE(encoder(options)->encode(parse(kTwoRounds))->too_long);
  EXPECT_NE(shown(*encoder(), R"({"query":"q","response":"r","images":["a.png"]})").find("field \"images\""),
            std::string::npos);
}

TEST(ChatEncoder, PreferenceRowsEncodeBothAnswers) {
  const Row row = parse(R"({"query":"q","response":"good","rejected_response":"bad"})");
  const auto with = encoder();
  EXPECT_NE(shown(with->encode(row)->samples[0]).find("[good<|im_end|>"), std::string::npos);
  EXPECT_NE(shown(with->encode(row, row.rejected)->samples[0]).find("[bad<|im_end|>"), std::string::npos);
}

TEST(ChatEncoder, EverySettingIsInTheFingerprint) {
  std::vector<ChatEncoderOptions> all(7);
  all[1].max_length = 7;
  all[2].truncation = Truncation::left;
  all[3].loss_scale = chat::LossScale::all;
  all[4].use_chat_template = false;
  all[5].template_kwargs = R"({"enable_thinking": false})";
  all[6].agent_template = "hermes";
  std::vector<std::string> prints;
  for (const auto& options : all) prints.push_back(encoder(options)->fingerprint());
  std::sort(prints.begin(), prints.end());
  EXPECT_EQ(std::adjacent_find(prints.begin(), prints.end()), prints.end());
}

TEST(ChatEncoder, NeedsATemplateUnlessTextIsPlain) {
  ChatEncoderOptions options;
  options.identity = "x";
  EXPECT_FALSE(ChatEncoder::create(byte_tokenizer(), std::nullopt, options).ok());
  options.use_chat_template = false;
  EXPECT_TRUE(ChatEncoder::create(byte_tokenizer(), std::nullopt, options).ok());
  options.agent_template = "hermes";
  EXPECT_EQ(ChatEncoder::create(byte_tokenizer(), std::nullopt, options).error().line(),
            "--agent_template writes into a chat template, and none is used; remove it.");
  options.agent_template.clear();
  options.template_kwargs = "[1]";
  EXPECT_EQ(ChatEncoder::create(byte_tokenizer(), std::nullopt, options).error().line(),
            R"(the template variables are a JSON array, not an object; write them as {"enable_thinking": false}.)");
  options.identity.clear();
  EXPECT_THROW((void)ChatEncoder::create(byte_tokenizer(), std::nullopt, options), std::logic_error);
}

TEST(ChatEncoder, TokenizerIdentityFollowsTheFiles) {
  const test::TempDir scratch;
  EXPECT_FALSE(tokenizer_identity(scratch.path()).ok());
  scratch.write("tokenizer.json", "{}");
  const auto one = tokenizer_identity(scratch.path()).value();
  scratch.write("chat_template.jinja", "x");
  EXPECT_NE(tokenizer_identity(scratch.path()).value(), one);
  const auto gguf = scratch.write("m.gguf", "GGUF....");
  EXPECT_FALSE(tokenizer_identity(gguf)->empty());
}

// From the shipped file to a mapped cache, through threads.
TEST(ChatEncoder, ShippedRowsEncodeWholeAndDecodeBack) {
  const test::TempDir scratch;
  LoadOptions load;
  load.dataset = {cat(TERN_SOURCE_DIR, "/examples/gsm8k/test.jsonl")};
  load.cache_directory = scratch.path();
  load.dataset_num_proc = 2;
  load.strict = true;
  const auto data = load_datasets(load, *encoder()).value();
  ASSERT_EQ(data.train.size(), 64U);
  std::uint32_t id = 0;
  (void)for_each_row(load.dataset[0], load, [&](Row&& row) {
    const SampleView view = data.train.sample(id++);
    const Sample sample{{view.ids.begin(), view.ids.end()}, {view.weights.begin(), view.weights.end()}};
    EXPECT_EQ(shown(sample), cat("<|im_start|>user\n", row.messages[0].content, "<|im_end|>\n<|im_start|>assistant\n[",
                                 row.messages[1].content, "<|im_end|>\n]"));
    return true;
  }).value();
}

}  // namespace
}  // namespace tern::data
