// infer and the small tools on a tiny model: laws that hold whatever its weights are.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "inferring.h"
#include "io/json.h"

namespace tern::e2e {
namespace {

TEST_F(Inference, TheSameSeedGivesTheSameAnswer) {
  const auto first = answer({"--temperature", "1", "--seed", "3"});
  EXPECT_EQ(answer({"--temperature", "1", "--seed", "3"}), first);
  EXPECT_NE(answer({"--temperature", "1", "--seed", "4"}), first);
  const auto greedy = answer({"--temperature", "0"});
  EXPECT_EQ(answer({"--temperature", "0", "--seed", "9"}), greedy);
  EXPECT_EQ(answer({"--temperature", "1", "--top_k", "1"}), greedy);
  EXPECT_EQ(answer({"--temperature", "0", "--stream", "true"}), greedy);
}

TEST_F(Inference, AStopWordEndsTheAnswerAndIsNoPartOfIt) {
  const auto whole = answer({"--temperature", "0"});
  // A character in the middle that is ASCII: the answer of random weights may hold anything.
  std::size_t at = whole.size() / 2;
  while (at < whole.size() && (whole[at] < '!' || whole[at] > '~')) ++at;
  ASSERT_LT(at, whole.size()) << whole;
  const std::string stop(1, whole[at]);
  EXPECT_EQ(answer({"--temperature", "0", "--stop_words", stop}), whole.substr(0, whole.find(stop)) + "\n");
}

// "Hello" is one token: the answer ends where it would, did it come letter by letter.
TEST_F(Inference, TheStopWordThatIsCompleteFirstEndsTheAnswer) {
  if (!has_real_model()) GTEST_SKIP() << "script/bootstrap fetches the model";
  Options options;
  options.input = "hi";
  const auto answer_of = [&](const std::vector<std::string>& stops) {
    std::vector<std::string> words = {"infer", "--model", "smollm2-135m", "--temperature", "0", "--max_new_tokens",
                                      "4"};
    if (!stops.empty()) words.emplace_back("--stop_words");
    words.insert(words.end(), stops.begin(), stops.end());
    return run(words, options).out;
  };
  ASSERT_EQ(answer_of({}).rfind("Hello", 0), 0U) << answer_of({});
  EXPECT_EQ(answer_of({"ell", "He"}), "\n");
  EXPECT_EQ(answer_of({"lo", "llo"}), "He\n") << "of two that end together the longer";
  EXPECT_EQ(answer_of({"o th", "x"}), "Hell\n") << "over the border of two tokens";
}

TEST_F(Inference, RowsAnsweredTogetherEqualRowsAnsweredAlone) {
  const std::vector<std::string> words = {"infer",         "--val_dataset", rows_,           "--max_new_tokens", "6",
                                          "--temperature", "0.8",           "--torch_dtype", "float32"};
  auto together = words;
  together.insert(together.end(), {"--max_batch_size", "4"});
  const auto alone = output(words);
  EXPECT_EQ(std::count(alone.begin(), alone.end(), '\n'), 6);
  EXPECT_EQ(output(together), alone);
  EXPECT_NE(alone.find("\"labels\":\"4\""), std::string::npos) << alone;
}

// What a row may call, what was called and what came back reach the template in the forms that it knows.
TEST_F(Inference, ToolsOfARowReachTheTemplate) {
  std::ofstream(path("model/chat_template.jinja"))
      << R"({% if tools[0].function.name != 'add' %}{{ raise_exception('no tools') }}{% endif %})"
         R"({% for m in messages %}{{ m.role }}:{{ m.content }})"
         R"({% for c in m.tool_calls or [] %}{{ c.function.name }}={{ c.function.arguments.a }}{% endfor %};{% endfor %})"
         R"({% if messages[1].role != 'assistant' or messages[1].tool_calls[0].function.arguments.a != 1 )"
         R"(or messages[2].role != 'tool' %}{{ raise_exception('other messages') }}{% endif %})";
  const auto rows =
      scratch_.write("tools.jsonl", R"({"tools": [{"type": "function", "function": {"name": "add"}}], "messages": [)"
                                    R"({"role": "user", "content": "1 + 2"}, {"role": "tool_call", "content": )"
                                    R"("{\"name\": \"add\", \"arguments\": {\"a\": 1}}"}, )"
                                    R"({"role": "tool_response", "content": "3"}, {"role": "user", "content": "so?"}]})"
                                    "\n");
  const auto result = output({"infer", "--val_dataset", rows, "--max_new_tokens", "2", "--strict"});
  EXPECT_NE(result.find(R"("tools":[{"type":"function","function":{"name":"add"}}])"), std::string::npos) << result;
  EXPECT_NE(result.find(R"("role":"tool_response")"), std::string::npos) << result;
}

// Each mistake is told once, and nothing but mistakes and results where quiet was asked for.
TEST_F(Inference, QuietIsQuietAndABadRowIsToldOnce) {
  const auto rows = scratch_.write("bad.jsonl", "{\"query\": \"1 + 2\"}\n{\"query\": [1]}\n");
  const std::vector<std::string> words = {
      "infer", "--model", path("model").string(), "--val_dataset", rows, "--max_new_tokens", "2", "--quiet"};
  const auto outcome = run(words, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("tern: warning: " + rows + ":2: field \"query\"", 0), 0U) << outcome.err;
  EXPECT_NE(outcome.err.find("\ntern: warning: " + rows + ": 1 bad row dropped\n"), std::string::npos) << outcome.err;
  EXPECT_EQ(run({"score", "--model", path("model").string(), "--dataset",
                 scratch_.write("text.jsonl", "{\"text\": \"a b\"}\n"), "--quiet"},
                options_)
                .err,
            "");
}

// A run's mark lies beside a file that it can go on in, and beside no device or pipe.
TEST_F(Inference, ADeviceHasNoMark) {
  const auto outcome = run({"infer", "--model", path("model").string(), "--val_dataset", rows_, "--max_new_tokens", "2",
                            "--result_path", "/dev/full"},
                           options_);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_FALSE(fs::exists("/dev/full.unfinished"));
}

TEST_F(Inference, AFolderWithOneGgufIsThatModel) {
  fs::create_directories(path("folder"));
  ASSERT_EQ(run({"convert", path("model").string(), path("folder/a.gguf").string()}, options_).status, 0);
  Options options = options_;
  options.input = "1 + 2";
  const auto answer_of = [&](const std::string& model) {
    return run({"infer", "--model", path(model).string(), "--max_new_tokens", "8"}, options);
  };
  const auto named = answer_of("folder/a.gguf");
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_EQ(answer_of("folder").out, named.out);
  fs::copy(path("folder/a.gguf"), path("folder/b.gguf"));
  const auto two = answer_of("folder");
  EXPECT_EQ(two.status, 3);
  EXPECT_EQ(two.last_error_line(), "tern: error: " + path("folder").string() +
                                       ": expected a model's directory, or one GGUF model in it, found a.gguf, b.gguf; "
                                       "name the file itself");
}

// What the model says last is the answer, be it text or a call; a row that nobody else could read is told and left out.
TEST_F(Inference, ACallAtTheEndIsTheAnswerThatIsComparedWith) {
  const auto rows = scratch_.write(
      "calls.jsonl", R"({"messages": [{"role": "user", "content": "1 + 2"}, {"role": "tool_call", "content": "{}"}]})"
                     "\n"
                     R"({"messages": [{"role": "user", "content": "b", "x": {"k": 1, "k": 2}}]})"
                     "\n"
                     R"({"tools": [{"name": "f", "name": "g"}], "query": "c"})"
                     "\n");
  const auto outcome =
      run({"infer", "--model", path("model").string(), "--val_dataset", rows, "--max_new_tokens", "2"}, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(R"("labels":"{}")"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("tool_call"), std::string::npos) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  EXPECT_NE(outcome.err.find("calls.jsonl:2: field \"messages[0].x\""), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("2 bad rows dropped"), std::string::npos) << outcome.err;
}

// A template without words for tools gets none: they stand in the messages' texts, in answers as in training.
TEST_F(Inference, AnAgentTemplateWritesToolsIntoTheTexts) {
  write_tiny_model(path("model"), {.max_positions = 2048});
  const auto plain = scratch_.write(
      "plain.jinja",
      "{% if tools %}{{ raise_exception('tools') }}{% endif %}{% for m in messages %}{% if m.tool_calls or m.role == "
      "'tool' %}{{ raise_exception('no words for it') }}{% endif %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}");
  const auto rows = scratch_.write(
      "tools.jsonl", R"({"tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}], "messages": [)"
                     R"({"role": "user", "content": "1 + 2"}, {"role": "tool_call", "content": )"
                     R"("{\"name\": \"add\", \"arguments\": {\"a\": 1}}"}, )"
                     R"({"role": "tool_response", "content": "3"}, {"role": "assistant", "content": "three"}]})"
                     "\n");
  std::vector<std::string> words = {"infer",      "--model",  path("model").string(), "--val_dataset",
                                    rows,         "--strict", "--max_new_tokens",     "2",
                                    "--template", plain};
  EXPECT_EQ(run(words, options_).status, 3) << "without the flag";
  words.insert(words.end(), {"--agent_template", "hermes"});
  const auto outcome = run(words, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto shown =
      output({"inspect-data", rows, "--template", plain, "--agent_template", "hermes", "--sample", "0", "--json"});
  const io::Json sample = io::parse_json(shown, "sample").value();
  std::string text;
  std::string learned;
  for (const io::Json& token : sample["shown"][0]["tokens"]) {
    text += token["text"].text();
    if (token["weight"].get<double>() > 0) learned += token["text"].text();
  }
  EXPECT_EQ(text.find("<|im_start|>system # Tools\n"), 0U) << text;
  EXPECT_NE(text.find("<|im_start|>user <tool_response>\n3\n</tool_response><|im_end|>"), std::string::npos) << text;
  EXPECT_EQ(learned,
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>three<|im_end|>");
}

// One row that is too long costs its own answer, not those of the others.
TEST_F(Inference, ARowWithoutAnAnswerIsAResultRowWithItsError) {
  const auto rows =
      scratch_.write("mixed.jsonl", "{\"query\": \"1 + 1\", \"response\": \"2\"}\n{\"query\": \"" +
                                        std::string(600, 'x') + "\", \"response\": \"3\"}\n{\"query\": \"2 + 2\"}\n");
  const std::vector<std::string> words = {"infer",
                                          "--model",
                                          path("model").string(),
                                          "--val_dataset",
                                          rows,
                                          "--max_new_tokens",
                                          "3",
                                          "--temperature",
                                          "0",
                                          "--max_batch_size",
                                          "2",
                                          "--metric",
                                          "acc"};
  const auto outcome = run(words, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
  const std::string error = rows +
                            ":2: prompt: expected fewer than 512 tokens, found 619 tokens; shorten it or raise "
                            "--max_model_len";
  const auto second = outcome.out.find('\n') + 1;
  EXPECT_EQ(outcome.out.find("{\"response\":null,\"labels\":\"3\",\"logprobs\":null,\"messages\":[", second), second);
  EXPECT_NE(outcome.out.find("],\"error\":\"" + error + "\"}\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("1 of 3 rows have no answer; the first: " + error), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" of 2 rows with a label"), std::string::npos) << outcome.err;
}

// Rows draw by their number: the same question again gets another answer, the same run again the same ones, and how
// many are answered at once changes nothing.
TEST_F(Inference, EqualRowsGetAnswersOfTheirOwn) {
  const std::string question = "{\"query\": \"1 + 1\"}\n";
  const auto rows = scratch_.write("equal.jsonl", question + question + question);
  const std::vector<std::string> words = {"infer", "--val_dataset", rows,     "--max_new_tokens", "24", "--temperature",
                                          "1",     "--torch_dtype", "float32"};
  auto together = words;
  together.insert(together.end(), {"--max_batch_size", "3"});
  const auto answers = output(words);
  EXPECT_EQ(output(together), answers);
  std::set<std::string> lines;
  std::istringstream text(answers);
  for (std::string line; std::getline(text, line);) lines.insert(line);
  EXPECT_EQ(lines.size(), 3U) << answers;
}

// The cache's dtype is that of the model: told so, nothing changes, and a small cache gives the same answers later.
TEST_F(Inference, TheCacheIsAsItIsTold) {
  const std::vector<std::string> words = {"infer",         "--val_dataset", rows_,           "--max_new_tokens", "6",
                                          "--temperature", "0.8",           "--torch_dtype", "float32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return output(std::move(more));
  };
  const auto plain = with({});
  EXPECT_EQ(with({"--kv_cache_dtype", "float32"}), plain);
  EXPECT_EQ(with({"--kv_cache_dtype", "auto", "--kv_cache_memory", "20KB", "--max_batch_size", "4"}), plain);
  EXPECT_NE(with({"--kv_cache_dtype", "bfloat16", "--logprobs"}), with({"--kv_cache_dtype", "float32", "--logprobs"}));
  // Of the words for one flag the last counts.
  const auto narrow = with({"--torch_dtype", "bfloat16", "--logprobs"});
  EXPECT_EQ(with({"--torch_dtype", "bfloat16", "--logprobs", "--kv_cache_dtype", "bfloat16"}), narrow);
  EXPECT_NE(with({"--torch_dtype", "bfloat16", "--logprobs", "--kv_cache_dtype", "float32"}), narrow);
}

// A cache in 8 bits answers, says what it takes, and rounds; a dtype that there is none of, a model that keeps no keys,
// and a device without such attention say so before weights are read.
TEST_F(Inference, TheCacheMayBeInEightBits) {
  const std::vector<std::string> words = {"infer", "--val_dataset", rows_, "--max_new_tokens", "6", "--logprobs"};
  const auto with = [&](const std::string& dtype, std::vector<std::string> more = {}) {
    more.insert(more.begin(), words.begin(), words.end());
    more.insert(more.end(), {"--kv_cache_dtype", dtype, "--model", path("model").string()});
    return run(more, options_);
  };
  const auto exact = with("float32");
  for (const char* dtype : {"int8", "fp8"}) {
    const auto outcome = with(dtype);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out, exact.out) << dtype;
    EXPECT_NE(outcome.err.find(std::string(" tokens in ") + dtype + " take "), std::string::npos) << outcome.err;
    EXPECT_EQ(with(dtype, {"--max_batch_size", "4", "--batch_invariant", "true"}).out,
              with(dtype, {"--batch_invariant", "true"}).out);
  }
  EXPECT_EQ(with("fp8_e4m3").out, with("fp8").out);
  EXPECT_EQ(with("int8", {"--device", "sim"}).status, 0);
  Options ascend = options_;
  ascend.variables["TERN_SIM"] = "ascend";
  const auto refused = run({"infer", "--val_dataset", rows_, "--kv_cache_dtype", "int8", "--device", "sim", "--model",
                            path("model").string()},
                           ascend);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("has no attention over a cache in 8 bits; leave the flag out, or give bfloat16"),
            std::string::npos)
      << refused.err;
  const auto unknown = with("fp8_e5m2");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("fp8_e5m2"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("fp8_e4m3"), std::string::npos) << unknown.err;
}

// The flag's dtype is that of the weights, wherever it comes from: rounded when they're loaded or when they were
// written, they score alike to the last digit, and a wider dtype than the stored one adds nothing.
TEST_F(Inference, TorchDtypeIsWhatWeightsAreHeldIn) {
  const auto texts = scratch_.write("texts.jsonl", "{\"text\": \"one and two\"}\n");
  const auto score = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"score", "--model", path(model).string(), "--dataset", texts});
    const auto outcome = run(more, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  for (const auto& [from, to, outtype] : {std::tuple{"model", "narrow", "bf16"}, {"narrow", "widened", "f32"}}) {
    const auto outcome = run({"convert", path(from).string(), path(to).string(), "--outtype", outtype}, options_);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  const auto plain = score("model", {});
  EXPECT_EQ(score("model", {"--torch_dtype", "float32"}), plain) << "config.json's";
  const auto narrow = score("model", {"--torch_dtype", "bfloat16"});
  EXPECT_NE(narrow, plain);
  EXPECT_EQ(score("narrow", {}), narrow) << "config.json's";
  const auto widened = score("narrow", {"--torch_dtype", "float32"});
  EXPECT_EQ(score("widened", {}), widened);
  EXPECT_NE(widened, plain);
}

// Another number than in float32, but close to it.
// Beside each drawn token the likeliest ones, the first first; what was drawn greedily is the first.
TEST_F(Inference, TheLikeliestTokensAreTold) {
  for (const char* device : {"cpu", "sim"}) {
    SCOPED_TRACE(device);
    const auto rows = output({"infer", "--device", device, "--val_dataset", rows_, "--max_new_tokens", "3",
                              "--temperature", "0", "--max_batch_size", "4", "--logprobs", "--top_logprobs", "4"});
    std::istringstream lines(rows);
    int tokens = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto row = io::parse_json(line, "row").value();
      for (const auto& token : row["logprobs"]["content"]) {
        ++tokens;
        ASSERT_EQ(token["top_logprobs"].size(), 4U) << line;
        EXPECT_EQ(token["top_logprobs"][0]["id"].get<int>(), token["id"].get<int>());
        EXPECT_EQ(token["top_logprobs"][0]["token"].text(), token["token"].text());
        EXPECT_NEAR(token["top_logprobs"][0]["logprob"].get<double>(), token["logprob"].get<double>(), 1e-6);
        for (int i = 1; i < 4; ++i) {
          EXPECT_LE(token["top_logprobs"][i]["logprob"].get<double>(),
                    token["top_logprobs"][i - 1]["logprob"].get<double>());
          EXPECT_NE(token["top_logprobs"][i]["id"].get<int>(), token["id"].get<int>());
        }
      }
    }
    EXPECT_EQ(tokens, 18) << rows;
  }
  const auto drawn = output({"infer", "--val_dataset", rows_, "--max_new_tokens", "8", "--temperature", "2",
                             "--logprobs", "--top_logprobs", "1"});
  EXPECT_TRUE(std::regex_search(drawn, std::regex("\"id\":[0-9]+,\"logprob\":[-.e0-9]+,\"top_logprobs\":\\[\\{")))
      << "what was drawn need not be the likeliest: " << drawn;
}

// The label of every row is the answer that the model gives: then all is 1, and with another label it is not.
TEST_F(Inference, AnswersAreJudgedByTheMetric) {
  const auto asked = output({"infer", "--val_dataset", rows_, "--max_new_tokens", "12", "--temperature", "0"});
  std::string own;
  std::istringstream lines(asked);
  for (std::string line; std::getline(lines, line);) {
    const auto row = io::parse_json(line, "row").value();
    own += io::Json{{"query", row["messages"][0]["content"]}, {"response", row["response"]}}.dump() + "\n";
  }
  const auto told = [&](const std::string& rows, const char* metric) {
    return run({"infer", "--model", path("model").string(), "--val_dataset", rows, "--max_new_tokens", "12",
                "--temperature", "0", "--metric", metric},
               options_)
        .err;
  };
  const std::string same = scratch_.write("own.jsonl", own);
  EXPECT_NE(told(same, "acc").find("acc: 1.0000 (6 of 6 rows with a label)\n"), std::string::npos) << told(same, "acc");
  const std::regex rouge("rouge-1: ([0-9.]+), rouge-2: ([0-9.]+), rouge-l: ([0-9.]+), bleu-4: ([0-9.]+) \\(6 rows");
  std::smatch found;
  const std::string perfect = told(same, "rouge");
  ASSERT_TRUE(std::regex_search(perfect, found, rouge)) << perfect;
  EXPECT_GT(std::stod(found[1]), 99.9) << perfect;
  EXPECT_GT(std::stod(found[3]), 99.9) << perfect;
  const std::string other = told(rows_, "rouge");
  ASSERT_TRUE(std::regex_search(other, found, rouge)) << other;
  EXPECT_LT(std::stod(found[1]), 50) << other;
}

TEST_F(Inference, ActivationsAreKeptInTheDtypeThatIsAsked) {
  const auto texts = scratch_.write("texts.jsonl", "{\"text\": \"one and two\"}\n");
  const auto loss = [&](const std::string& dtype) {
    const auto outcome = run({"score", "--model", path("model").string(), "--dataset", texts, "--device", "cpu",
                              "--activation_dtype", dtype},
                             options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto at = outcome.out.find("\"loss\":");
    return at == std::string::npos ? 0.0 : std::stod(outcome.out.substr(at + 7));
  };
  const double plain = loss("float32");
  ASSERT_GT(plain, 0.0);
  for (const char* dtype : {"bfloat16", "float16"}) {
    EXPECT_NE(loss(dtype), plain) << dtype;
    EXPECT_NEAR(loss(dtype), plain, 0.05 * plain) << dtype;
  }
}

TEST_F(Inference, TheModelsDtypeIsTold) {
  const auto texts = scratch_.write("texts.jsonl", "{\"text\": \"one\"}\n");
  const auto told = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"score", "--model", path("model").string(), "--dataset", texts, "--device", "cpu"});
    return run(more, options_).err;
  };
  EXPECT_NE(told({}).find("parameters, torch_dtype float32, products in f32, activations in f32\n"), std::string::npos)
      << told({});
  // What products round to hangs on the processor; the line says which it is.
  EXPECT_TRUE(
      std::regex_search(told({"--torch_dtype", "bfloat16"}),
                        std::regex("parameters, torch_dtype bfloat16, products in (bf16|f32), activations in f32\n")));
  EXPECT_TRUE(
      std::regex_search(told({"--torch_dtype", "float16"}),
                        std::regex("parameters, torch_dtype float16, products in (f16|f32), activations in f32\n")));
}

TEST_F(Inference, ResultsGoToTheFileThatWasNamed) {
  const auto file = path("answers.jsonl").string();
  EXPECT_EQ(output({"infer", "--val_dataset", rows_, "--max_new_tokens", "2", "--temperature", "0", "--logprobs",
                    "--result_path", file}),
            "");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_NE(text.str().find("\"logprob\":-"), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("\"logprobs\":null"), std::string::npos);
}

TEST_F(Inference, TheTemplatesFlagsReachTheTemplate) {
  const auto file =
      scratch_.write("loud.jinja", "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ enable_thinking }}");
  const auto plain = answer({"--temperature", "0"});
  const auto on = answer({"--temperature", "0", "--template", file, "--enable_thinking", "true"});
  const auto off = answer({"--temperature", "0", "--template", file, "--enable_thinking", "false"});
  EXPECT_NE(on, plain);
  EXPECT_NE(on, off);
  EXPECT_NE(answer({"--temperature", "0", "--system", "Be brief."}), plain);
}

TEST_F(Inference, TokensThereAndBack) {
  const auto ids = output({"tokenize", "--text", "one two", "--json"});
  EXPECT_NE(ids.find("\"ids\""), std::string::npos) << ids;
  EXPECT_EQ(output({"tokenize", "--text", "111 110 101", "--decode"}), "one\n");
}

TEST_F(Inference, DoctorTellsOfTheProcessor) {
  const auto outcome = run({"doctor", "--device", "cpu"}, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("cpu: instruction set: "), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tern::e2e
