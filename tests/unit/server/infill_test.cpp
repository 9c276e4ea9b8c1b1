#include "server/llamacpp/infill.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/unit/server/fake_exchange.h"

namespace tern::server::llamacpp {
namespace {

using io::Json;

tokenizer::Tokenizer words(const std::string& more) {
  return tokenizer::Tokenizer::from_json(
             cat(R"({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
                     "model": {"type": "WordLevel", "unk_token": "u", "vocab":
                     {"u": 0, "a": 1, "b": 2, "c": 3, "f.py": 4, "filename": 5, "myproject": 6, "---": 7, "snippet": 8)",
                 more, "}}}"),
             "test")
      .value();
}

TEST(FimPrompt, IsLaidOutAsTheFamilyWasTrained) {
  const std::string qwen = R"(, "<|fim_prefix|>": 11, "<|fim_suffix|>": 12, "<|fim_middle|>": 13)";
  FimRequest gap{"a b", "c", {}, 0};
  EXPECT_EQ(fim_prompt(words(qwen), gap)->ids, (engine::TokenIds{11, 1, 2, 12, 3, 13}));
  EXPECT_EQ(fim_prompt(words(R"(, "[PREFIX]": 11, "[SUFFIX]": 12)"), gap)->ids, (engine::TokenIds{12, 3, 11, 1, 2}));
  gap.files = {{"f.py", "b"}};
  EXPECT_EQ(fim_prompt(words(qwen), gap)->ids, (engine::TokenIds{7, 8, 7, 2, 11, 1, 2, 12, 3, 13}));
  const std::string marks = qwen + R"(, "<|repo_name|>": 14, "<|file_sep|>": 15)";
  const auto whole = fim_prompt(words(marks), gap);
  EXPECT_EQ(whole->ids, (engine::TokenIds{14, 6, 15, 4, 2, 15, 5, 11, 1, 2, 12, 3, 13}));
  EXPECT_EQ(whole->stop_token_ids, (std::vector<std::int32_t>{14, 15}));
  gap.most_tokens = 9;  // the files' end is kept
  EXPECT_EQ(fim_prompt(words(marks), gap)->ids, (engine::TokenIds{2, 15, 5, 11, 1, 2, 12, 3, 13}));
  gap.most_tokens = 3;
  EXPECT_EQ(fim_prompt(words(marks), gap)->ids, (engine::TokenIds{11, 1, 2, 12, 3, 13}));
  const auto none = fim_prompt(words(""), gap);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().line().find("without tokens for a prefix"), std::string::npos);
}

// What llama.vim sends.
TEST(InfillRequest, IsReadAsEditorsSendIt) {
  const auto asked = parse_infill(R"({"input_prefix": "a\n", "input_suffix": "c", "prompt": "  b",
      "input_extra": [{"text": "t", "time": [1, 2], "filename": "f.py"}], "n_predict": 128, "n_indent": 2, "top_k": 40,
      "top_p": 0.99, "stream": false, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": true,
      "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "seed": -1, "response_fields": ["content"]})");
  EXPECT_EQ(asked.gap.prefix, "a\n  b");
  EXPECT_EQ(asked.gap.files[0].name, "f.py");
  const SamplingWishes& wishes = asked.completion.sampling;
  EXPECT_EQ(wishes.max_tokens, 128);
  EXPECT_EQ(wishes.top_k, 40);
  EXPECT_EQ(wishes.temperature, 1.0F);  // it's not among the samplers
  EXPECT_EQ(wishes.repetition_penalty, 1.0F);
  EXPECT_FALSE(wishes.seed);
  EXPECT_EQ(asked.most_ms, 1000);
  EXPECT_EQ(asked.n_indent, 2);
  EXPECT_TRUE(parse_infill(R"({"input_prefix": "", "input_suffix": "", "n_predict": 0})").silent);
  for (const char* bad :
       {R"({"input_prefix": "a"})", R"({"input_prefix": "a", "input_suffix": "b", "samplers": ["xtc"]})",
        R"({"input_prefix": "a", "input_suffix": "b", "n_probs": 2})",
        R"({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"name": "x"}]})"}) {
    EXPECT_THROW((void)parse_infill(bad), Failure) << bad;
  }
}

struct Told {
  Json body;
  std::vector<std::string> events;
  int stopped = 0;
};

Told tell(WriterOptions options, const std::vector<std::string>& pieces, std::chrono::milliseconds step = {}) {
  const auto exchange = std::make_shared<FakeExchange>();
  auto now = std::make_shared<std::chrono::nanoseconds>(0);
  options.model = "m";
  options.clock = [now, step] { return *now += step; };
  const bool stream = options.stream;
  const auto writer = infill_writer(std::move(options), exchange);
  Told told;
  writer->ends_by([&] { ++told.stopped; });
  for (const std::string& piece : pieces) writer->piece({.text = piece});
  writer->ended({.kind = told.stopped > 0 ? StopKind::aborted : StopKind::stop});
  writer->finished({.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5});
  EXPECT_TRUE(exchange->complete);
  if (stream) told.events = exchange->events();
  told.body = stream ? io::parse_json(told.events.back(), "event").value() : exchange->json();
  return told;
}

TEST(InfillAnswer, SaysHowItWent) {
  const Told told = tell({}, {"x = 1\n", "y"}, std::chrono::milliseconds(1));
  EXPECT_EQ(told.body["content"], "x = 1\ny");
  EXPECT_EQ(told.body["stop_type"], "eos");
  EXPECT_EQ(told.body["tokens_predicted"], 5);
  EXPECT_EQ(told.body["timings"]["prompt_n"], 6);
  EXPECT_EQ(told.body["timings"]["prompt_per_second"].get<double>(), 6000.0);
  WriterOptions few;
  few.fields = {"content", "timings/predicted_n", "timings/none", ""};
  EXPECT_EQ(tell(few, {"x"}).body.dump(), R"({"content":"x","timings/predicted_n":5})");
  WriterOptions silent;
  silent.silent = true;
  EXPECT_EQ(tell(silent, {"x"}).body["content"], "");
}

// A line that goes back to the left is the end, and is not told.
TEST(InfillAnswer, EndsWhereTheIndentationEnds) {
  for (const bool stream : {false, true}) {
    WriterOptions options;
    options.stream = stream;
    options.n_indent = 2;
    const Told told = tell(options, {"a\n", "  b", "\n ", "   c\n", " d", "e\n  f"});
    std::string text;
    for (std::size_t i = 0; i + 1 < told.events.size(); ++i) {
      text += io::parse_json(told.events[i], "event").value()["content"].text();
    }
    if (!stream) text = told.body["content"].text();
    EXPECT_EQ(text, "a\n  b\n    c");
    EXPECT_EQ(told.stopped, 1);
    EXPECT_EQ(told.body["stop_type"], "limit");
  }
  WriterOptions options;
  options.n_indent = 2;
  EXPECT_EQ(tell(options, {"a\n  b\n "}).body["content"], "a\n  b\n ");  // not known to be short
}

TEST(InfillAnswer, EndsWhenItsTimeIsOver) {
  WriterOptions options;
  options.most_ms = 1;
  const Told late = tell(options, {"a", "b", "c", "d\n", "e", "f"}, std::chrono::milliseconds(1));
  EXPECT_EQ(late.stopped, 1);
  EXPECT_EQ(late.body["stop_type"], "limit");
  EXPECT_EQ(late.body["content"], "abcd\ne");
  EXPECT_EQ(tell(options, {"a", "b", "c", "d", "e", "f"}, std::chrono::milliseconds(1)).stopped, 0);  // one line
}

}  // namespace
}  // namespace tern::server::llamacpp
