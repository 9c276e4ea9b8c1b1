// The error line of each mistake, whole, and the exit status of its kind (docs/cli.md): what the command was given,
// what was expected there, what was found, the mend.
#include <regex>

#include "failing.h"

namespace tern::e2e {
namespace {

using Words = std::vector<std::string>;

struct Row {
  Words words;
  std::string line;
};

class ErrorLines : public Failing {
 protected:
  void expect_all(int status, const std::vector<Row>& rows) const {
    for (const auto& row : rows) expect_line(row.words, status, row.line);
  }
  // sft with the model and the rows, and nothing else.
  [[nodiscard]] Words bare_sft(const Words& more) const {
    Words words = {"sft", "--model", model(), "--dataset", rows_};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The cpu backend, spoiled (tests/unit/accel/plugin).
  [[nodiscard]] Options with_plugin(const std::string& fault) const {
    Options options = options_;
    options.variables["TERN_TEST_PLUGIN"] = fault + "=" TERN_PLUGIN_DIR "/libtern_cpu.so";
    return options;
  }
};

TEST_F(ErrorLines, OfBadUsageEndWithTwo) {
  const std::string m = model();
  const std::string adapter = scratch_.write("adapter/adapter_config.json", "{\"r\": 8}");
  const std::string folder = path("adapter").string();
  const std::string text = scratch_.write("text.jsonl", "{\"text\": \"one and two\"}\n");
  const std::string two_roles = scratch_.write(
      "two.jinja", "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}{% endfor %}");
  const auto guess = [&](const std::string& config) {
    return Words{"infer", "--model", m, "--val_dataset", rows_, "--speculative_config", config};
  };
  const std::string like =
      R"(write it like {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, )"
      R"("prompt_lookup_min": 2}, {"method": "suffix"} or {"model": "FOLDER", )"
      R"("num_speculative_tokens": 5}, where FOLDER is a smaller model, or with "method": "eagle3" a head; )"
      R"({"method": "mtp", "num_speculative_tokens": 1} guesses by the model's own layers.)";
  const std::string bare = damaged("tokenizer_config.json", [](const std::string&) { return "{}"; });
  expect_all(
      2,
      {
          {{"convert"},
           "tern convert needs a model to convert; for example tern convert smollm2-135m smollm2-135m-bf16 --outtype "
           "bf16."},
          {{"convert", m}, "tern convert needs an output; name a file or directory after the model."},
          {{"inspect"}, "tern inspect needs a model; for example tern inspect smollm2-135m."},
          {{"tokenize", "--text", "x"},
           "tern tokenize needs a model, whose tokenizer it uses; for example tern tokenize --model smollm2-135m "
           "--text "
           "'Hello world'."},
          {{"tokenize", "--model", m, "--decode", "--text", "1 999"},
           "--decode takes token ids from 0 to 257, not \"999\"; for example tern tokenize --decode --text '1 2 3'."},
          {{"score", "--model", m}, "tern score needs rows {\"text\"}; give --dataset FILE."},
          {{"score", "--model", m, "--dataset", rows_, "--adapters", folder, folder},
           "--adapters takes one adapter here, not 2; merge the others first with tern merge-lora."},
          {{"score", "--model", m, "--dataset", text, "--max_length", "513"},
           "--max_length is 513, and the model computes at most 512 tokens; lower it."},
          {{"score", "--model", m, "--dataset", text, "--max_length", "32", "--stride", "32"},
           "--stride is 32, and windows have 32 tokens: the first token of each would not be scored; give a stride "
           "below 32."},
          {{"infer"}, "tern infer needs a model; name one, for example with --model smollm2-135m."},
          {{"infer", "--model", m, "--stop_words", "a", ""},
           "--stop_words has an empty word, which would end every answer at once; remove it."},
          {{"infer", "--model", m, "--seed", "18446744073709551616"},
           "--seed is 18446744073709551616, and must be an integer of at least 0, and below 2^63; for example --seed "
           "42."},
          {{"infer", "--model", m, "--max_model_len", "100000"},
           "--max_model_len is 100000, and the model takes at most 512 tokens; lower it."},
          {{"infer", "--model", m, "--rope_scaling", "yarn"},
           "--rope_scaling yarn says no factor, and there is no --max_model_len to reach; give --max_model_len with "
           "the "
           "length that you want, or --rope_scaling '{\"rope_type\": \"yarn\", \"factor\": 4.0}'."},
          {{"infer", "--model", m, "--rope_scaling", R"({"type": "dynamic", "factor": 2.0})"},
           "--rope_scaling dynamic turns a token otherwise as its sequence grows, and keys in a cache have turned "
           "already; choose yarn."},
          {{"infer", "--model", m, "--rope_scaling", R"({"type": "linear", "factor": 0.5})"},
           "--rope_scaling stretches 512 positions by 0.5; give a factor and an original context of at least 1."},
          {{"infer", "--model", m, "--val_dataset", rows_, "--top_logprobs", "3"},
           "--top_logprobs has no effect: no log-probabilities are written; give --logprobs, or remove it."},
          {{"infer", "--model", m, "--val_dataset", rows_, "--logprobs", "--top_logprobs", "321"},
           "--top_logprobs is 321, and the model has 320 tokens; lower it."},
          {{"infer", "--model", m, "--val_dataset", rows_, "--template", two_roles, "--agent_template", "llama3"},
           "--agent_template llama3 writes a tool's answer as a message of the role tool, which " + two_roles +
               " does not show; choose another one, such as hermes, or another --template."},
          {{"infer", "--model", bare, "--val_dataset", rows_, "--agent_template", "hermes"},
           "--agent_template writes into a chat template, and the model has none; give one with --template, or remove "
           "it."},
          {guess(R"({"method": "eagle", "num_speculative_tokens": 2})"),
           "--speculative_config has the method \"eagle\", and ngram, draft_model, eagle3, mtp and suffix are those "
           "there are; " +
               like},
          {guess(R"({"num_speculative_tokens": 2})"),
           "--speculative_config has the method none, and ngram, draft_model, eagle3, mtp and suffix are those there "
           "are; " +
               like},
          {guess(R"({"method": 5, "num_speculative_tokens": 2})"),
           "--speculative_config has method 5, and it is a text; " + like},
          {guess(R"({"method": "draft_model", "num_speculative_tokens": 2})"),
           "--speculative_config needs the model that guesses; " + like},
          {guess(R"({"method": "eagle3", "num_speculative_tokens": 2})"),
           "--speculative_config needs the head that guesses; " + like},
          {guess(R"({"model": "x", "num_speculative_tokens": 2, "prompt_lookup_max": 2})"),
           "--speculative_config has the key prompt_lookup_max, which the method draft_model does not know; " + like},
          {guess(R"({"method": "ngram"})"), "--speculative_config needs num_speculative_tokens; " + like},
          {guess(R"({"method": "mtp"})"), "--speculative_config needs num_speculative_tokens; " + like},
          {guess(R"({"method": "deepseek_mtp", "model": "x", "num_speculative_tokens": 1})"),
           "--speculative_config has the key model, which the method deepseek_mtp does not know; " + like},
          {guess(R"({"method": "ngram", "num_speculative_tokens": 0})"),
           "--speculative_config has num_speculative_tokens 0, and it is an integer from 1 to 1024; " + like},
          {guess(R"({"method": "ngram", "num_speculative_tokens": 2, "model": "x"})"),
           "--speculative_config has the key model, which the method ngram does not know; " + like},
          {guess(R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2, "prompt_lookup_min": 3})"),
           "--speculative_config has prompt_lookup_min above prompt_lookup_max; " + like},
          {guess(R"({"method": "suffix", "suffix_decoding_max_cached_requests": -1})"),
           "--speculative_config has suffix_decoding_max_cached_requests -1, and it is an integer from 0 to "
           "1000000000; " +
               like},
          {guess(R"({"method": "suffix", "suffix_decoding_min_token_prob": 1.5})"),
           "--speculative_config has suffix_decoding_min_token_prob 1.5, and it is a number from 0 to 1; " + like},
          {guess(R"({"method": "suffix", "prompt_lookup_max": 2})"),
           "--speculative_config has the key prompt_lookup_max, which the method suffix does not know; " + like},
          {{"bench", "--model", m, "--prompt_length", "600"},
           "--prompt_length and --max_new_tokens make 728 tokens together, and the model computes at most 512; lower "
           "one "
           "of them."},
          {{"merge-lora"}, "tern merge-lora needs an adapter; give --adapters and the folder of a checkpoint."},
          {{"merge-lora", "--adapters", folder},
           "the adapter's adapter_config.json does not name the model that it was trained on; name it with --model."},
          {{"inspect-data", "--dataset", rows_},
           "tern inspect-data needs a model, whose tokenizer and template decide what is learned; for example --model "
           "smollm2-135m."},
          {{"inspect-data", "--model", m, "--dataset", rows_, "--sample", "8"},
           "--sample is 8, and there are 8 samples, counted from 0; give a lower number."},
          {{"selftest", "--op", "matmull"}, "no op is called matmull; did you mean matmul?"},
      });
}

TEST_F(ErrorLines, OfFlagsThatDoNotGoTogetherEndWithTwo) {
  expect_all(
      2, {
             {{"sft", "--model", model()}, "no dataset was given; give --dataset a file or a hub id."},
             {bare_sft({"--streaming"}),
              "--streaming needs --max_steps: nobody knows how long a stream is; give --max_steps N."},
             {bare_sft({"--load_best_model_at_end", "--val_dataset", rows_, "--save_strategy", "no"}),
              "--load_best_model_at_end has no effect: nothing is saved; give --save_strategy steps or epoch."},
             {bare_sft({"--report_to", "swanlab", "--swanlab_mode", "local"}),
              "--swanlab_mode local: SwanLab's dashboard reads a database that its own package writes; leave the flag "
              "away and upload the run with swanlab sync, or give --report_to tensorboard, whose dashboard runs here."},
             {bare_sft({"--profile", "trace.json", "--profile_steps", "4-2"}),
              "--profile_steps 4-2 names no steps; write it like 2-4, or 1."},
             {bare_sft({"--adapters", "a", "b"}),
              "--adapters takes one adapter here, not 2; merge the others first with tern merge-lora."},
             {bare_sft({"--tuner_type", "full", "--max_steps", "1", "--freeze_parameters", "modle"}),
              "--freeze_parameters \"modle\" begins no weight's name; give a prefix of a name such as "
              "model.embed_tokens.weight; `tern inspect` lists them."},
             {bare_sft({"--tuner_type", "full", "--max_steps", "1", "--freeze_parameters", "model"}),
              "--freeze_parameters freezes every weight; let some be trained with --trainable_parameters."},
             {bare_sft({"--max_steps", "1", "--target_regex", "layers"}),
              "--target_regex \"layers\" matches no layer; match a whole name such as model.layers.0.self_attn.q_proj; "
              "begin with .* where anything may come before."},
         });
  Options mode = options_;
  mode.variables["WANDB_MODE"] = "ofline";
  expect_line(bare_sft({"--report_to", "wandb"}), 2,
              "WANDB_MODE=ofline is no mode of wandb; set it to offline or disabled.", mode);
  expect(bare_sft({"--max_steps", "1", "--profile", model() + "/config.json/t.json"}), 2,
         {"--profile ", "config.json/t.json: ", "; name a file in a folder that can be written."});
  expect(bare_sft({"--max_steps", "1", "--target_regex", "("}), 2,
         {"--target_regex \"(\" is not a regular expression: it needs ", "; write it as Python's re takes it."});
}

TEST_F(ErrorLines, OfBadDataEndWithThree) {
  const std::string m = model();
  const std::string prompts = scratch_.write("bad.jsonl", "{\"query\": [1]}\n");
  const std::string empty = scratch_.write("empty.jsonl", "{\"query\": \"\"}\n");
  const std::string text = scratch_.write("text.jsonl", "{\"text\": \"one and two\"}\n");
  const std::string other = damaged("tokenizer.json", [](const std::string& json) {
    return std::regex_replace(json, std::regex("<\\|im_start"), "<|im_begin");
  });
  expect_all(
      3,
      {
          {{"score", "--model", m, "--dataset", rows_},
           rows_ + ":1: expected a row {\"text\"}, found a row of another format; write it as {\"text\": ...}; tern "
                   "inspect-data shows dialogues"},
          {{"score", "--model", m, "--dataset", text, "--reference", other},
           other + ": token 256: expected \"<|im_start|>\", as " + m +
               " has it, found \"<|im_begin|>\"; compare models that share a tokenizer"},
          {{"score", "--model", m, "--dataset", scratch_.write("none.jsonl", "")},
           "--dataset: expected rows to score, found none; name a file that has rows {\"text\": ...}"},
          {{"infer", "--model", m, "--val_dataset", path("absent.jsonl").string()},
           path("absent.jsonl").string() + ": expected a data file, found no such file; check the path"},
          {{"tokenize", "--model", m, "--dataset", rows_},
           rows_ + ":1: expected a row {\"text\"}, found a row of another format; write it as {\"text\": ...}; tern "
                   "inspect-data shows dialogues"},
          {{"infer", "--model", m, "--val_dataset", prompts},
           "--val_dataset: expected rows to answer, found none; name files that have some; lines above say what was "
           "wrong with bad ones"},
          {{"infer", "--model", m, "--max_model_len", "4", "--strict", "--val_dataset", rows_},
           "--val_dataset: expected an answer to every row, found 8 of 8 without one, the first " + rows_ +
               ":1: prompt: expected fewer than 4 tokens, found 24 tokens; shorten it or raise --max_model_len; see "
               "\"error\" in the result rows"},
          {{"infer", "--model", m, "--use_chat_template", "false", "--strict", "--val_dataset", empty},
           "--val_dataset: expected an answer to every row, found 1 of 1 without one, the first " + empty +
               ":1: prompt: expected at least one token, found none; give it some text; see \"error\" in the result "
               "rows"},
          {{"infer", "--model", m, "--load_data_args"},
           "--load_data_args: expected held-out rows of the training run, found none beside the checkpoint; name "
           "them with --val_dataset"},
          {bare_sft({"--resume_from_checkpoint", path("none").string()}),
           "--resume_from_checkpoint " + path("none").string() +
               ": expected a checkpoint directory, found none; name one, or last"},
          {{"selftest", "--device", "cpu", "--replay", path("none.case").string()},
           path("none.case").string() + ": expected a case of tern selftest, found no readable file; check the path"},
      });
  for (const auto& [content, said] :
       {std::pair{"[1]", ": expected an object, found [1]"},
        {"{\"do_sample\": 1}", ": field \"do_sample\": expected true or false, found 1"},
        {"{\"do_sample\": true, \"top_p\": \"all\"}", ": field \"top_p\": expected a number, found \"all\""}}) {
    const std::string other =
        damaged("generation_config.json", [text = std::string(content)](const std::string&) { return text; });
    expect_line({"infer", "--model", other, "--val_dataset", rows_}, 3,
                other + "/generation_config.json" + said + "; take the file from the model's repository, or remove it");
  }
}

// A checkpoint of full tuning is one model's.
TEST_F(ErrorLines, OfACheckpointOfAnotherModelEndWithThree) {
  ASSERT_EQ(run(sft({"--tuner_type", "full", "--add_version", "false"}), options_).status, 0);
  const std::string checkpoint = path("out/checkpoint-1").string();
  TinyModel deep;
  deep.layers = 3;
  write_tiny_model(path("deep"), deep);
  TinyModel wide;
  wide.intermediate = 96;
  write_tiny_model(path("wide"), wide);
  for (const auto& [other, tensor, found] : {std::tuple{"deep", "model.layers.2.input_layernorm.weight", "none"},
                                             {"wide", "model.layers.0.mlp.gate_proj.weight", "one of another shape"}}) {
    expect_line(sft({"--tuner_type", "full", "--model", path(other).string(), "--resume_from_checkpoint", checkpoint}),
                3,
                checkpoint + ": tensor " + tensor + ": expected the weight of this model, found " + found +
                    "; resume with the flags the checkpoint was made with");
  }
}

TEST_F(ErrorLines, OfDevicesEndWithFour) {
  Options broken = options_;
  broken.variables["TERN_BACKEND_PATH"] = fs::path(scratch_.write("plugins/libtern_broken.so", "x")).parent_path();
  expect_line({"devices", "--device", "cpu:7"}, 4,
              "there is no device cpu:7: backend cpu has 1 device; see tern devices.");
  expect({"devices", "--device", "broken"}, 4, {"there is no device broken: ", "; see tern devices."}, broken);
  expect({"devices", "--device", "nosuch"}, 4, {"no backend is called nosuch; choose one of "});
  expect({"devices", "--backend", "/none.so"}, 4, {"--backend /none.so cannot be loaded: ", "; check the path."});
  expect_line({"doctor", "--device", "nosuch"}, 4, "no backend is called nosuch; see tern devices.");
  expect({"infer", "--model", model(), "--device", "nosuch"}, 4,
         {"--device nosuch names a backend that is not installed"});
  for (const auto& plugin : {"sim", "cpu", "opencl", "npu"}) {
    const std::string shadow = std::string("none/libtern_") + plugin + ".so";
    broken.variables["TERN_BACKEND_PATH"] = fs::path(scratch_.write(shadow, "x")).parent_path();
  }
  expect({"infer", "--model", model()}, 4, {"there is no device to run on: ", "; run `tern devices` to see each"},
         broken);
  expect_line({"doctor", "--backend", TERN_FAULTY_PLUGIN, "--device", "cpu"}, 4,
              "1 check of tern doctor failed; fix what the lines above say.", with_plugin("sick"));
}

TEST_F(ErrorLines, OfAWrongDeviceEndWithOne) {
  const Words selftest = {"selftest", "--backend", TERN_FAULTY_PLUGIN};
  Words one = selftest;
  one.insert(one.end(), {"--op", "mul"});
  expect(one, 1, {"the selftest of cpu:0 found ", "; see the table above."}, with_plugin("wrong"));
  Words replay = selftest;
  replay.insert(replay.end(), {"--replay", path("selftest-mul.case").string()});
  expect(replay, 1,
         {"mul on cpu:0 is wrong for ",
          "selftest-mul.case: ", "; fix the kernel, or choose another device with --device."},
         with_plugin("wrong"));
  expect({"selftest", "--backend", TERN_FAULTY_PLUGIN, "--model", model()}, 1,
         {"cpu:0 computes ", " wrongly in call ", "; run tern selftest --replay "}, with_plugin("wrong"));
}

TEST_F(ErrorLines, OfWhatCannotBeWrittenEndWithOne) {
  const std::string texts = scratch_.write("texts.jsonl", "{\"text\": \"one\"}\n");
  const std::string place = scratch_.write("file", "") + "/out";
  const Words score = {"score", "--model", model(), "--dataset", texts};
  const Words tokenize = {"tokenize", "--model", model(), "--dataset", texts};
  const Words infer = {"infer", "--model", model(), "--val_dataset", rows_, "--max_new_tokens", "1"};
  expect({"bench", "--model", model(), "--prompt_length", "4", "--max_new_tokens", "2", "--svg", place}, 1,
         {"cannot write " + place});
  EXPECT_EQ(
      run({"bench", "--model", model(), "--prompt_length", "4", "--max_new_tokens", "2", "--svg", place}, options_).out,
      "")
      << "told before anything is measured";
  for (const Words& command : {score, tokenize, infer}) {
    Words words = command;
    words.insert(words.end(), {"--result_path", place});
    expect(words, 1, {"cannot write " + place + ": not a directory; "});
  }
  Options full = options_;
  full.stdout_path = "/dev/full";
  expect_line(score, 1, "the scores could not be written to standard output; check the space left.", full);
  expect_line(tokenize, 1, "the tokens could not be written; check the space left.", full);
  full.input = "1 + 1";
  expect_line({"infer", "--model", model(), "--max_new_tokens", "1"}, 1,
              "the answer could not be written to standard output; check the space left.", full);
  const std::string gguf = path("model.gguf").string();
  ASSERT_EQ(run({"convert", model(), gguf}, options_).status, 0);
  for (const auto& [folder, found] : {std::pair{std::string("/proc/self"), std::string("/proc/self/tern-convert-")},
                                      {path("absent").string(), std::string("")}}) {
    Options nowhere = options_;
    nowhere.variables["TMPDIR"] = folder;
    expect({"convert", gguf, path("back").string()}, 1,
           {"cannot make a folder for small files: " + found, "; set TMPDIR to a folder that can be written."},
           nowhere);
  }
}

// What no allocation of the host gives is told as the device's memory is.
TEST_F(ErrorLines, OfHostMemoryEndWithFour) {
  TinyModel large;
  large.max_positions = 100'000'000;
  write_tiny_model(path("large"), large);
  Options little = options_;
  little.input = "1 + 1";
  little.address_space = std::uint64_t{1} << 30;
  expect_line({"infer", "--model", path("large").string(), "--threads", "1"}, 4,
              "the host has no memory left for the run; use a smaller batch or a shorter length.", little);
}

}  // namespace
}  // namespace tern::e2e
