// Every kind of failure as a user meets it: one line that says what is wrong and what to do, and the exit status of its
// kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include <unistd.h>

#include "failing.h"

namespace tern::e2e {
namespace {

using Failures = Failing;

TEST_F(Failures, UsageIsTwo) {
  expect(sft({"--lora_rank", "many"}), 2, {"--lora_rank is \"many\", and must be an integer of at least 1; "});
  expect(sft({"--lora_rnk", "4"}), 2, {"--lora_rnk", "did you mean --lora_rank?"});
  expect(sft({"--deepspeed", "zero3"}), 2, {"--deepspeed", "not implemented yet"});
  expect(sft({"--port", "80"}), 2, {"--port", "no effect in tern sft", "deploy"});
  expect(sft({"--freeze_parameters", "model"}), 2, {"--freeze_parameters", "only an adapter is trained", "remove it"});
  expect(sft({"--tuner_type", "full", "--lora_rank", "4"}), 2, {"--lora_rank", "no LoRA adapter is trained", "remove it"});
  expect(sft({"--packing_length", "64"}), 2, {"--packing_length", "nothing is packed", "--packing"});
  expect(sft({"--target_modules", "q_prj"}), 2, {"q_prj", "q_proj"});
  expect(sft({"--target_regex", "("}), 2, {"--target_regex"});
  expect(sft({"--target_regex", "nothing"}), 2, {"--target_regex", "matches no layer"});
  expect(sft({"--model_type", "qwen3"}), 2, {"--model_type is qwen3", "config says llama", "drop the flag"});
  expect({"sft", "--model", model()}, 2, {"no dataset was given", "give --dataset"});
  expect({"infer", "--model", model(), "--logprobs"}, 2, {"--logprobs", "--val_dataset"});
  expect({"infer", "--model", model(), "--max_model_len", "100000"}, 2,
         {"--max_model_len is 100000", "at most 512 tokens", "lower it."});
}

TEST_F(Failures, AModelThatCannotBeReadIsThree) {
  expect(sft({"--model", path("absent").string()}), 3, {path("absent").string(), "check the path"});
  expect(sft({"--model", "smolm2-135m"}), 3, {"smolm2-135m", "did you mean smollm2-135m?"});
  const auto cut = [](std::string text) { return text.substr(0, text.size() / 2); };
  expect(sft({"--model", damaged("model.safetensors", cut)}), 3, {"model.safetensors"});
  expect(sft({"--model", damaged("config.json", cut)}), 3, {"config.json"});
  expect(sft({"--model", damaged("tokenizer.json", cut)}), 3, {"tokenizer.json"});
  const auto other = [](const std::string& from, const std::string& to) {
    return [=](std::string text) { return text.replace(text.find(from), from.size(), to); };
  };
  expect(sft({"--model", damaged("config.json", other("LlamaForCausalLM", "UnheardForCausalLM"))}), 3,
         {"LlamaForCausalLM", "UnheardForCausalLM"});
  expect(sft({"--model", damaged("config.json", other("\"hidden_size\":32", "\"hidden_size\":64"))}), 3, {"expected"});
  expect(sft({"--model", damaged("model.safetensors", other("mlp.up_proj", "mlp.up_pork"))}), 3,
         {"up_pork", "expected"});
  const auto gguf = scratch_.write("model.gguf", "GGUF\x03");
  expect(sft({"--model", gguf}), 3, {gguf});
}

TEST_F(Failures, DataThatCannotBeReadIsThree) {
  const auto bad = scratch_.write("bad.jsonl", sums(2) + "{\"query\": [1], \"response\": \"2\"}\n");
  expect(sft({"--dataset", path("absent.jsonl").string()}), 3, {"absent.jsonl"});
  expect(sft({"--dataset", bad, "--strict"}), 3, {bad + ":3", "\"query\"", "expected", "found an array"});
  const auto prompts = scratch_.write("prompts.jsonl", "{\"query\": \"1 + 1\"}\n");
  expect(sft({"--dataset", prompts}), 3, {"supervised"});
  // Before the weights are opened: they may be large, and far away.
  const auto cut = [](const std::string& text) { return text.substr(0, text.size() / 2); };
  const auto torn = damaged("model.safetensors", cut);
  expect(sft({"--dataset", prompts, "--model", torn}), 3, {prompts, "at least one supervised token"});
  expect(sft({"--dataset", prompts, "--model", torn, "--streaming"}), 3, {prompts, "at least one supervised token"});
  const auto null = scratch_.write("null.jsonl", "{\"query\": \"1 + 1\", \"response\": null}\n");
  expect(sft({"--dataset", null, "--strict"}), 3, {null + ":1: field \"response\": expected a string, found null"});
  expect(sft({"--resume_from_checkpoint", "last"}), 3, {"--resume_from_checkpoint last", "a sound checkpoint"});
  expect({"infer", "--model", model(), "--adapters", path("model").string()}, 3, {"adapter_config.json"});
  Options empty = options_;
  empty.input = "\n";
  expect({"infer", "--model", model()}, 3, {"standard input", "a question", "nothing"}, empty);
}

TEST_F(Failures, ACheckpointThatWasChangedIsPassedOver) {
  ASSERT_EQ(run(sft({"--add_version", "false", "--max_steps", "2", "--save_steps", "1"}), options_).status, 0);
  std::ofstream(path("out/checkpoint-2/optimizer.safetensors"), std::ios::binary | std::ios::app) << "x";
  const auto resumed =
      run(sft({"--add_version", "false", "--max_steps", "3", "--resume_from_checkpoint", "last"}), options_);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("checkpoint passed over"), std::string::npos) << resumed.err;
  std::ofstream(path("out/checkpoint-1/trainer_state.json"), std::ios::binary | std::ios::app) << " ";
  expect(sft({"--resume_from_checkpoint", path("out/checkpoint-1").string()}), 3, {"trainer_state.json"});
}

// One row of the tied embedding is NaN, and with it one logit of every token.
TEST_F(Failures, ANumberThatIsNotFiniteEndsItsRowAndNamesIt) {
  const std::string broken = damaged("model.safetensors", [](std::string bytes) {
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const TinyModel tiny;
    for (int i = 0; i < tiny.hidden; ++i) {  // the embedding stands first
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(bytes.data() + sizeof(header) + header + sizeof(nan) * ('z' * tiny.hidden + i), &nan, sizeof(nan));
    }
    return bytes;
  });
  const std::string said =
      ": a logit is NaN; try --torch_dtype float32; if that fails too, the weights or the adapter are damaged.";
  const auto texts = scratch_.write("texts.jsonl", "{\"text\": \"one\"}\n");
  expect_line({"score", "--model", broken, "--dataset", texts}, 1, texts + ":1: token 1" + said);
  Options one = options_;
  one.input = "1 + 1";
  expect({"infer", "--model", broken, "--max_new_tokens", "2"}, 1, {"request 0, token ", said}, one);
  const auto rows = run({"infer", "--model", broken, "--val_dataset", rows_ + "#2", "--max_new_tokens", "2"}, options_);
  EXPECT_EQ(rows.status, 0) << rows.err;
  EXPECT_EQ(std::count(rows.out.begin(), rows.out.end(), '\n'), 2) << rows.out;
  EXPECT_NE(rows.out.find("\"error\":\"" + rows_ + ":1: request 0, token "), std::string::npos) << rows.out;
  EXPECT_NE(rows.err.find("2 of 2 rows have no answer; the first: "), std::string::npos) << rows.err;
}

TEST_F(Failures, ADeviceThatIsAbsentIsFour) {
  expect(sft({"--device", "nosuch"}), 4, {"nosuch"});
  expect({"infer", "--model", model(), "--device", "cpu:7"}, 4, {"cpu:7"});
}

TEST_F(Failures, MemoryThatIsShortIsFour) {
  TinyModel large;
  large.max_positions = 16'000'000;
  write_tiny_model(path("large"), large);
  Options little = options_;
  little.input = "1 + 1";
  little.address_space = std::uint64_t{1} << 30;
  expect({"infer", "--model", path("large").string(), "--threads", "1"}, 4, {"memory"}, little);
}

TEST_F(Failures, ACacheThatHoldsNoSequenceIsFour) {
  expect({"infer", "--model", model(), "--max_model_len", "512", "--kv_cache_memory", "20KB"}, 4,
         {"key-value cache", "for one sequence of 512 tokens", "--kv_cache_memory allows 19.5 KiB",
          "raise --kv_cache_memory"});
}

// Bits that are a NaN, whatever the dtype is.
std::string with_nan(std::string text) { return text.replace(text.size() - 4, 4, "\xff\xff\xff\x7f"); }

TEST_F(Failures, ALossThatIsNotFiniteIsOne) {
  const std::vector<std::string> flags = {"--dataset_shuffle", "false", "--per_device_train_batch_size", "2"};
  auto words = sft({"--model", damaged("model.safetensors", with_nan)});
  words.insert(words.end(), flags.begin(), flags.end());
  expect(words, 1,
         {"step 1, samples 0 (" + rows_ + ":1), 1 (" + rows_ + ":2): the loss is nan: the weight ",
          " holds nan; the model's file or the checkpoint is damaged"});
  words.emplace_back("--streaming");
  expect(words, 1, {"step 1, samples 0 (" + rows_ + ":1), 1 (" + rows_ + ":2): the loss is nan"});
  // What was saved before the weights ran away is kept.
  words = sft({"--max_steps", "9", "--add_version", "false", "--save_steps", "1", "--max_grad_norm", "0",
               "--learning_rate", "1e30"});
  words.insert(words.end(), flags.begin(), flags.end());
  expect(words, 1, {"step 2, samples ", "the loss is nan: op ", "lower --learning_rate"});
  EXPECT_TRUE(fs::exists(path("out/checkpoint-1/trainer_state.json")));
  EXPECT_FALSE(fs::exists(path("out/checkpoint-2")));
}

TEST_F(Failures, ADirectoryThatCannotBeWrittenIsOne) {
  const auto file = scratch_.write("file", "");
  auto words = sft({});
  words[4] = file + "/out";
  expect(words, 1, {file, "--output_dir"});
  expect({"infer", "--model", model(), "--val_dataset", rows_, "--result_path", file + "/answers"}, 1, {"answers"});
}

// Nothing that tern opens takes a closed stream's place: no model file is read as the question, and nothing that is
// printed is written into a file.
TEST_F(Failures, ClosedStandardStreamsStayClosed) {
  Options closed = options_;
  closed.closed = {STDIN_FILENO};
  expect({"infer", "--model", model()}, 3, {"standard input", "a question", "nothing"}, closed);
  closed.closed = {STDOUT_FILENO};
  expect({"inspect", model()}, 1, {"standard output could not be written"}, closed);
  expect({"infer", "--model", model(), "--val_dataset", rows_, "--max_new_tokens", "2"}, 1,
         {"could not be written to standard output"}, closed);
  closed.closed = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  const auto results = path("results").string();
  EXPECT_EQ(
      run({"infer", "--model", model(), "--val_dataset", rows_, "--max_new_tokens", "2", "--result_path", results},
          closed)
          .status,
      0);
  std::ifstream rows(results);
  for (std::string line; std::getline(rows, line);) EXPECT_EQ(line.rfind("{\"response\":", 0), 0U) << line;
}

// The tokenizer has a token that the embedding has no row for: such a text has no answer, others have theirs.
TEST_F(Failures, ATokenThatTheModelLacksCostsItsRow) {
  const std::string more = damaged("tokenizer.json", [](std::string json) {
    const std::string last = "\"added_tokens\":[";
    std::string added;
    for (int id = 258; id <= 320; ++id) {
      added += "{\"id\":" + std::to_string(id) + ",\"content\":\"<" + std::to_string(id) +
               ">\",\"special\":false,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false},";
    }
    const auto at = json.find(last);
    const auto end = json.find(']', at);
    added.pop_back();
    return json.insert(end, "," + added);
  });
  const std::string said =
      ": expected an id from 0 to 319, as the model has them, found 320, \"<320>\"; take the "
      "tokenizer and the weights from the same model, or leave that token out";
  const auto asked =
      scratch_.write("asked.jsonl", "{\"query\": \"a\"}\n{\"query\": \"<320>\"}\n{\"query\": \"<319>\"}\n");
  const auto rows = run({"infer", "--model", more, "--val_dataset", asked, "--max_new_tokens", "2"}, options_);
  EXPECT_EQ(rows.status, 0) << rows.err;
  EXPECT_NE(rows.err.find("1 of 3 rows have no answer; the first: " + asked + ":2: token "), std::string::npos)
      << rows.err;
  EXPECT_NE(rows.err.find(said), std::string::npos) << rows.err;
  const auto texts = scratch_.write("texts.jsonl", "{\"text\": \"a\"}\n{\"text\": \"<320>\"}\n");
  expect({"score", "--model", more, "--dataset", texts}, 3, {texts + ":2: token 0" + said});
  const auto vectors = run({"infer", "--model", more, "--task_type", "embedding", "--val_dataset", texts}, options_);
  EXPECT_EQ(vectors.status, 0) << vectors.err;
  EXPECT_NE(vectors.err.find("1 of 2 rows have no answer; the first: " + texts + ":2: token 0" + said),
            std::string::npos)
      << vectors.err;
}

TEST_F(Failures, OutputThatIsFullIsOne) {
  Options full = options_;
  full.stdout_path = "/dev/full";
  expect({"infer", "--model", model(), "--val_dataset", rows_, "--max_new_tokens", "2"}, 1,
         {"the answers could not be written to standard output"}, full);
  expect({"inspect", model()}, 1, {"standard output"}, full);
}

}  // namespace
}  // namespace tern::e2e
