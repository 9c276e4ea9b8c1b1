// Training as a user types it, on a tiny model: what is learned, saved, resumed and told.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <regex>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

class Training : public TinyTraining {
 protected:
  Training() : TinyTraining(sums(96)) {}

  [[nodiscard]] std::vector<std::string> sft(const std::string& output,
                                             const std::vector<std::string>& more = {}) const {
    // clang-format off
    std::vector<std::string> words = TinyTraining::sft(output, {
        "--learning_rate", "1e-2", "--per_device_train_batch_size", "4", "--threads", "2",
        "--gradient_accumulation_steps", "2"});
    // clang-format on
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Outcome train(const std::string& output, std::vector<std::string> more) const {
    return run(sft(output, std::move(more)), options_);
  }
  // Runs until `signal_when`, with `signal`.
  [[nodiscard]] Outcome train_until(const std::string& output, std::vector<std::string> more,
                                    std::function<bool()> signal_when, int signal) const {
    Options options = options_;
    options.signal_when = std::move(signal_when);
    options.signal = signal;
    return run(sft(output, std::move(more)), options);
  }
  [[nodiscard]] double score(const std::vector<std::string>& model) const {
    std::vector<std::string> words = {"score", "--dataset", texts_};
    words.insert(words.end(), model.begin(), model.end());
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::smatch found;
    EXPECT_TRUE(std::regex_search(outcome.out, found, std::regex("\"loss\":([-+.0-9eE]+)"))) << outcome.out;
    return found.empty() ? 0.0 : std::stod(found[1]);
  }
  std::string held_out_ = scratch_.write("held-out.jsonl", sums(24));
  std::string texts_ = scratch_.write("texts.jsonl", "{\"text\": \"1 + 2 is 3 and 3 + 4 is 7\"}\n");
};

TEST_F(Training, LearnsAndMergesToTheSameModel) {
  const auto outcome = train("out", {"--max_steps", "30", "--val_dataset", held_out_, "--eval_on_start"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto losses = logged("out", "eval_loss");
  ASSERT_EQ(losses.size(), 2U) << read("out/logging.jsonl");
  EXPECT_LT(std::stod(losses[1]), 0.85 * std::stod(losses[0])) << "nothing was learned";
  const fs::path checkpoint = path("out/checkpoint-30");
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors", "args.json",
                           "trainer_state.json", "rng_state.json", "manifest.json"}) {
    EXPECT_TRUE(fs::exists(checkpoint / file)) << file;
  }
  EXPECT_TRUE(fs::exists(path("out/binding.txt")));
  const auto merge = run({"merge-lora", "--adapters", checkpoint.string()}, options_);
  ASSERT_EQ(merge.status, 0) << merge.err;
  const std::string merged = checkpoint.string() + "-merged";
  const double plain = score({"--model", path("model").string()});
  const double adapter = score({"--model", path("model").string(), "--adapters", checkpoint.string()});
  EXPECT_GT(std::abs(plain - adapter), 0.2) << "the adapter changes nothing";
  EXPECT_NEAR(score({"--model", merged}), adapter, 1e-4) << "merged in float32, as the model is";
  EXPECT_NE(read(fs::path(merged) / "config.json").find("\"torch_dtype\": \"float32\""), std::string::npos);
  const auto narrow = run({"merge-lora", "--adapters", checkpoint.string(), "--torch_dtype", "bfloat16", "--output_dir",
                           path("narrow").string()},
                          options_);
  ASSERT_EQ(narrow.status, 0) << narrow.err;
  EXPECT_NE(read("narrow/config.json").find("\"torch_dtype\": \"bfloat16\""), std::string::npos);
  EXPECT_LT(fs::file_size(path("narrow/model.safetensors")),
            0.6 * static_cast<double>(fs::file_size(fs::path(merged) / "model.safetensors")));
  // Weights are rounded to bf16 once: 2^-9 of each.
  EXPECT_NEAR(score({"--model", path("narrow").string()}), adapter, 0.05);
  Options ask = options_;
  ask.input = "1 + 2\n";
  const auto answer = run({"infer", "--model", merged, "--temperature", "0", "--max_new_tokens", "8"}, ask);
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_GT(answer.out.size(), 1U);
  const auto again = run({"merge-lora", "--adapters", checkpoint.string()}, options_);
  EXPECT_EQ(again.status, 2) << "an existing directory was replaced";
}

TEST_F(Training, ALearningRateOfZeroGainsNothing) {
  const auto outcome =
      train("out", {"--max_steps", "4", "--val_dataset", held_out_, "--eval_on_start", "--learning_rate", "0"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto losses = logged("out", "eval_loss");
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(Training, OnlyConstantWithWarmupWarmsUp) {
  const std::vector<std::string> flags = {"--max_steps", "4", "--save_strategy", "no", "--warmup_steps", "2"};
  const auto rates = [&](const std::string& kind) {
    auto more = flags;
    more.insert(more.end(), {"--lr_scheduler_type", kind});
    const auto outcome = train(kind, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("never warms up") != std::string::npos, kind == "constant") << outcome.err;
    return logged(kind, "learning_rate");
  };
  EXPECT_EQ(rates("constant"), (std::vector<std::string>{"0.01", "0.01", "0.01", "0.01"}));
  EXPECT_EQ(rates("constant_with_warmup"), (std::vector<std::string>{"0.0", "0.005", "0.01", "0.01"}));
}

TEST_F(Training, ResumesToTheBitAfterBeingKilled) {
  const std::vector<std::string> flags = {"--max_steps", "40", "--save_steps", "10"};
  ASSERT_EQ(train("whole", flags).status, 0);
  ASSERT_EQ(train_until(
                "cut", flags, [&] { return fs::exists(path("cut/checkpoint-10")); }, SIGKILL)
                .status,
            128 + 9);
  auto resumed = flags;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", "last"});
  fs::remove_all(path("home/choices"));  // kernels are chosen by the checkpoint, not measured again
  const auto saving = [&] {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path("cut"), ignored)) {
      if (entry.path().filename().string().find(".checkpoint-30.tmp") == 0) return true;
    }
    return fs::exists(path("cut/checkpoint-30"));
  };
  ASSERT_EQ(train_until("cut", resumed, saving, SIGKILL).status, 128 + 9);
  fs::remove_all(path("home/choices"));
  const auto last = train("cut", resumed);
  ASSERT_EQ(last.status, 0) << last.err;
  expect_same_checkpoint("whole/checkpoint-40", "cut/checkpoint-40");
  EXPECT_EQ(logged("whole", "loss"), logged("cut", "loss"));
  for (const auto& entry : fs::directory_iterator(path("cut"))) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path() << " was left";
  }
}

TEST_F(Training, CtrlCSavesAndSaysHowToGoOn) {
  const std::vector<std::string> flags = {"--max_steps", "200", "--save_steps", "100"};
  const auto logs = [&] { return logged("cut", "loss").size() >= 3; };
  const auto cut = train_until("cut", flags, logs, SIGINT);
  ASSERT_EQ(cut.status, 75) << cut.err;
  std::smatch found;
  const std::string line = cut.last_error_line();
  ASSERT_TRUE(std::regex_match(
      line, found,
      std::regex("tern: error: training was stopped, and .* is saved; give --resume_from_checkpoint (.*) to go on\\.")))
      << line;
  auto resumed = flags;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", found[1]});
  const auto rest = train("cut", resumed);
  ASSERT_EQ(rest.status, 0) << rest.err;
  ASSERT_EQ(train("whole", flags).status, 0);
  expect_same_checkpoint("whole/checkpoint-200", "cut/checkpoint-200");
}

TEST_F(Training, ResumingComparesWhatTheStepsDependOn) {
  const std::vector<std::string> flags = {"--max_steps", "4", "--save_steps", "2", "--max_length", "100"};
  ASSERT_EQ(train("out", flags).status, 0);
  const auto args = read("out/args.json");
  const auto resumed = [&](std::vector<std::string> more) {
    auto words = flags;
    words.insert(words.end(), {"--resume_from_checkpoint", path("out/checkpoint-2").string()});
    words.insert(words.end(), more.begin(), more.end());
    return train("out", words);
  };
  const std::string where = "cannot resume from " + path("out/checkpoint-2").string() + ": its run had ";
  const std::vector<std::pair<std::vector<std::string>, std::string>> other = {
      {{"--seed", "7"}, "seed 42, and this one has seed 7"},
      {{"--data_seed", "7"}, "data_seed 42, and this one has data_seed 7"},
      {{"--max_length", "90"}, "max_length 100, and this one has max_length 90"},
      {{"--system", "Add."}, "system none, and this one has system xxh3_64 "},
      {{"--loss_scale", "all"}, "loss_scale default, and this one has loss_scale all"},
      {{"--packing", "--packing_length", "100"}, "packing_length none, and this one has "},
      {{"--gradient_accumulation_steps", "3"},
       "per_device_train_batch_size x gradient_accumulation_steps x ranks 8, and this one has "},
  };
  for (const auto& [more, line] : other) {
    const auto outcome = resumed(more);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_EQ(outcome.last_error_line().find("tern: error: " + where + line), 0U) << outcome.err;
  }
  EXPECT_EQ(read("out/args.json"), args) << "a run that was refused wrote";
  const auto rows = read("rows.jsonl");
  scratch_.write("rows.jsonl", rows.substr(0, rows.rfind('\n', rows.size() - 2) + 1));
  const auto fewer = resumed({});
  EXPECT_EQ(fewer.status, 3) << fewer.err;
  EXPECT_NE(fewer.last_error_line().find("the data of the run that wrote it: 96 samples"), std::string::npos)
      << fewer.err;
  scratch_.write("rows.jsonl", rows);
  const auto changed = resumed({"--learning_rate", "1e-3", "--max_steps", "5", "--num_train_epochs", "9"});
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_NE(changed.err.find("the run goes on with learning_rate 0.001, which was 0.01"), std::string::npos)
      << changed.err;
  EXPECT_NE(changed.err.find("the run goes on with max_steps 5, which was 4"), std::string::npos) << changed.err;
}

TEST_F(Training, FullTuningSavesAModelAndResumes) {
  const std::vector<std::string> full = {"--tuner_type", "full", "--learning_rate", "1e-3", "--save_steps", "2"};
  auto whole = full;
  whole.insert(whole.end(), {"--max_steps", "4"});
  ASSERT_EQ(train("whole", whole).status, 0);
  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-2"), path("cut/checkpoint-2"), fs::copy_options::recursive);
  whole.insert(whole.end(), {"--resume_from_checkpoint", "last"});
  const auto rest = train("cut", whole);
  ASSERT_EQ(rest.status, 0) << rest.err;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(read(std::string("whole/checkpoint-4/") + file) == read(std::string("cut/checkpoint-4/") + file))
        << file;
  }
  EXPECT_EQ(run({"inspect", (path("whole") / "checkpoint-4").string()}, options_).status, 0);
}

// The bytes of a tensor of a safetensors file's content.
std::string tensor_bytes(const std::string& file, const std::string& name) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string json = file.substr(sizeof(header), header);
  const auto at = json.find("\"" + name + "\"");
  std::smatch found;
  const std::string rest = at == std::string::npos ? std::string() : json.substr(at);
  if (!std::regex_search(rest, found, std::regex(R"("data_offsets":\[(\d+),(\d+)\])"))) return {};
  const std::size_t begin = std::stoull(found[1]);
  return file.substr(sizeof(header) + header + begin, std::stoull(found[2]) - begin);
}

// What full tuning leaves frozen is never expanded: it stays as the file has it, and is written so.
TEST_F(Training, FrozenWeightsStayAsTheyAreStored) {
  const std::string gguf = path("model.gguf").string();
  ASSERT_EQ(run({"convert", path("model").string(), gguf, "--outtype", "q8_0"}, options_).status, 0);
  ASSERT_EQ(run({"convert", gguf, path("wide").string(), "--outtype", "f32"}, options_).status, 0);
  std::vector<std::string> flags = {
      "--model",     gguf, "--tuner_type",        "full",           "--learning_rate", "1e-3",
      "--max_steps", "4",  "--freeze_parameters", "model.layers.0", "--save_steps",    "2"};
  const auto whole = train("whole", flags);
  ASSERT_EQ(whole.status, 0) << whole.err;
  const std::string saved = read("whole/checkpoint-4/model.safetensors");
  const std::string stored = read("wide/model.safetensors");
  const std::string frozen = "model.layers.0.mlp.up_proj.weight";
  ASSERT_FALSE(tensor_bytes(stored, frozen).empty());
  EXPECT_TRUE(tensor_bytes(saved, frozen) == tensor_bytes(stored, frozen));
  const std::string trained = "model.layers.1.mlp.up_proj.weight";
  EXPECT_FALSE(tensor_bytes(saved, trained) == tensor_bytes(stored, trained));
  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-2"), path("cut/checkpoint-2"), fs::copy_options::recursive);
  flags.insert(flags.end(), {"--resume_from_checkpoint", "last"});
  const auto rest = train("cut", flags);
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(saved == read("cut/checkpoint-4/model.safetensors"));
}

// Frozen weights are held in the flag's dtype, so training over a model that was rounded before is the same training;
// what is trained is not rounded by it.
TEST_F(Training, TorchDtypeIsThatOfFrozenWeights) {
  const auto convert = run({"convert", path("model").string(), path("narrow").string(), "--outtype", "bf16"}, options_);
  ASSERT_EQ(convert.status, 0) << convert.err;
  const std::vector<std::string> flags = {"--max_steps", "3", "--torch_dtype", "bfloat16"};
  ASSERT_EQ(train("one", flags).status, 0);
  auto other = flags;
  other.insert(other.end(), {"--model", path("narrow").string()});
  ASSERT_EQ(train("two", other).status, 0);
  EXPECT_EQ(logged("one", "loss"), logged("two", "loss"));
  EXPECT_TRUE(read("one/checkpoint-3/adapter_model.safetensors") == read("two/checkpoint-3/adapter_model.safetensors"));
  EXPECT_NE(read("one/checkpoint-3/adapter_model.safetensors").find("\"F32\""), std::string::npos);
  ASSERT_EQ(train("three", {"--max_steps", "3"}).status, 0);
  EXPECT_NE(logged("one", "loss"), logged("three", "loss"));
}

// --load_args: an adapter is read over weights in the dtype that it was trained over, unless told otherwise.
TEST_F(Training, TheDtypeOfTrainingIsThatOfItsAdapter) {
  ASSERT_EQ(train("out", {"--max_steps", "1", "--torch_dtype", "bfloat16"}).status, 0);
  const std::string checkpoint = path("out/checkpoint-1").string();
  Options ask = options_;
  ask.input = "1 + 2\n";
  const auto told = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"infer", "--adapters", checkpoint, "--max_new_tokens", "1"});
    return run(more, ask).err;
  };
  EXPECT_NE(told({}).find(", torch_dtype bfloat16, "), std::string::npos) << told({});
  EXPECT_NE(told({"--load_args", "false"}).find(", torch_dtype float32, "), std::string::npos);
  EXPECT_NE(told({"--torch_dtype", "float32"}).find(", torch_dtype float32, "), std::string::npos);
  for (const auto& [folder, load_args, dtype] :
       {std::tuple{"as-trained", "true", "bfloat16"}, {"as-stored", "false", "float32"}}) {
    const auto merge =
        run({"merge-lora", "--adapters", checkpoint, "--output_dir", path(folder).string(), "--load_args", load_args},
            options_);
    ASSERT_EQ(merge.status, 0) << merge.err;
    EXPECT_NE(read(std::string(folder) + "/config.json").find("\"torch_dtype\": \"" + std::string(dtype) + "\""),
              std::string::npos)
        << folder;
  }
}

// The positions that a run scaled are those of what it saved: from the adapter, merged and whole.
TEST_F(Training, ScaledPositionsStayWithWhatWasTrainedOnThem) {
  const std::vector<std::string> scaling = {"--rope_scaling", "yarn", "--max_model_len", "2000"};
  auto flags = scaling;
  flags.insert(flags.end(), {"--max_steps", "8", "--learning_rate", "1e-2"});
  ASSERT_EQ(train("out", flags).status, 0);
  const std::string checkpoint = path("out/checkpoint-8").string();
  const auto merge = run({"merge-lora", "--adapters", checkpoint}, options_);
  ASSERT_EQ(merge.status, 0) << merge.err;
  const std::string merged = checkpoint + "-merged";
  const auto answer = [&](std::vector<std::string> words) {
    Options ask = options_;
    ask.input = "1 + 2\n";
    words.insert(words.begin(), "infer");
    words.insert(words.end(), {"--temperature", "0", "--max_new_tokens", "16"});
    const auto outcome = run(words, ask);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("positions: yarn, 512 tokens times 4, context 2000"), std::string::npos) << outcome.err;
    return outcome.out;
  };
  const auto said = answer({"--adapters", checkpoint});
  EXPECT_EQ(answer({"--adapters", checkpoint, "--rope_scaling", R"({"type": "yarn", "factor": 4.0})"}), said);
  const std::string config = read(fs::path(merged) / "config.json");
  EXPECT_NE(config.find("\"rope_type\": \"yarn\""), std::string::npos) << config;
  EXPECT_NE(config.find("\"max_position_embeddings\": 2000"), std::string::npos) << config;
  const double scaled = score({"--model", merged});
  std::vector<std::string> words = {"--model", path("model").string(), "--adapters", checkpoint};
  EXPECT_GT(std::abs(score(words) - scaled), 1e-3) << "the scaling changes nothing";
  words.insert(words.end(), scaling.begin(), scaling.end());
  EXPECT_NEAR(score(words), scaled, 1e-4);
}

// The masters that full tuning saves are fp32; the model that they are of keeps its dtype.
TEST_F(Training, AFullCheckpointNamesTheModelsDtype) {
  ASSERT_EQ(train("full", {"--tuner_type", "full", "--max_steps", "1", "--torch_dtype", "bfloat16"}).status, 0);
  const fs::path checkpoint = path("full/checkpoint-1");
  EXPECT_NE(read(checkpoint / "config.json").find("\"torch_dtype\": \"bfloat16\""), std::string::npos);
  const std::string weights = read(checkpoint / "model.safetensors");
  EXPECT_NE(weights.find("\"F32\""), std::string::npos);
  EXPECT_EQ(weights.find("\"BF16\""), std::string::npos);
}

TEST_F(Training, LoadArgsGoesOnAsTheFirstRunWas) {
  const std::vector<std::string> flags = {"--max_steps", "4",    "--save_steps", "2",
                                          "--system",    "Add.", "--max_length", "100"};
  ASSERT_EQ(train("whole", flags).status, 0);
  const std::string checkpoint = path("whole/checkpoint-2").string();
  fs::create_directories(path("cut"));
  fs::copy(checkpoint, path("cut/checkpoint-2"), fs::copy_options::recursive);
  std::vector<std::string> words = sft("cut", {"--load_args", "--resume_from_checkpoint", "last", "--max_steps", "4"});
  words.erase(words.begin() + 1, words.begin() + 3);  // --model
  const auto rest = run(words, options_);
  ASSERT_EQ(rest.status, 0) << rest.err;
  expect_same_checkpoint("whole/checkpoint-4", "cut/checkpoint-4");
  EXPECT_NE(read("cut/args.json").find("\"system\": \"Add.\""), std::string::npos);
  const auto none = train("none", {"--load_args"});
  EXPECT_EQ(none.status, 3);
  EXPECT_NE(none.last_error_line().find("args.json"), std::string::npos) << none.last_error_line();
}

TEST_F(Training, ADiskThatIsFullIsToldAndNothingHalfIsLeft) {
  Options full = options_;
  full.largest_file = 30'000;  // less than the adapter
  const auto outcome = run(sft("out", {"--max_steps", "4", "--save_steps", "2"}), full);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("checkpoint not saved, training goes on"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.last_error_line().rfind("tern: error: ", 0), 0U);
  EXPECT_EQ(logged("out", "loss").size(), 4U) << "training ended with the first failed save";
  for (const auto& entry : fs::directory_iterator(path("out"))) {
    EXPECT_EQ(entry.path().string().find("checkpoint-"), std::string::npos) << entry.path();
  }
}

TEST_F(Training, AnotherRunsCheckpointIsLeftAlone) {
  ASSERT_EQ(train("out", {"--max_steps", "4", "--save_steps", "2"}).status, 0);
  const std::string before = read("out/args.json") + read("out/logging.jsonl");
  const auto refused = train("out", {"--max_steps", "3", "--seed", "7"});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.last_error_line().find(path("out/checkpoint-2").string() + " is another run's checkpoint"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(read("out/args.json") + read("out/logging.jsonl"), before);
  const auto beside = train("out", {"--max_steps", "1", "--save_total_limit", "1"});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_NE(beside.err.find("last checkpoint: " + path("out/checkpoint-1").string()), std::string::npos) << beside.err;
  for (const char* name : {"out/checkpoint-1", "out/checkpoint-2", "out/checkpoint-4"}) {
    EXPECT_TRUE(fs::exists(path(name))) << name;
  }
}

// The commands that a run ends with are ones that work where they're pasted.
TEST_F(Training, NamesWhatToDoNext) {
  for (const std::string tuner : {"lora", "full"}) {
    const std::string output = "it's " + tuner;
    const auto outcome = train(output, {"--max_steps", "2", "--tuner_type", tuner});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const std::string label : {"ask it: ", "merge it: "}) {
      std::smatch command;
      if (!std::regex_search(outcome.err, command, std::regex(label + " +(.*)"))) {
        EXPECT_EQ(label + tuner, "merge it: full") << outcome.err;
        continue;
      }
      const std::string paste = "cd '" + scratch_.path().string() + "' && echo 1 + 2 is | TERN_HOME='" +
                                path("home").string() + "' " + command[1].str() + " >said 2>&1";
      EXPECT_EQ(std::system(paste.c_str()), 0) << paste << "\n" << read("said");
    }
    for (const char* file : {"images/train_loss.svg", "logging.jsonl"})
      EXPECT_TRUE(fs::exists(path(output + "/" + file))) << file;
    EXPECT_FALSE(fs::is_empty(path(output + "/runs")));
  }
}

TEST_F(Training, ADirectoryHasOneWriter) {
  std::atomic<bool> enough = false;
  auto first = std::async(std::launch::async, [&] {
    return train_until(
        "out", {"--max_steps", "1000000", "--save_strategy", "no"}, [&] { return enough.load(); }, SIGKILL);
  });
  while (!fs::exists(path("out/logging.jsonl")) &&
         first.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
  }
  const auto second = train("out", {"--max_steps", "2"});
  enough = true;
  EXPECT_EQ(first.get().status, 128 + 9);
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.last_error_line().find("another run is writing to "), std::string::npos) << second.err;
}

TEST_F(Training, KeepsTheHeldOutSplitAndEndsOnTheBest) {
  const auto outcome =
      train("out", {"--max_steps", "6", "--save_steps", "2", "--split_dataset_ratio", "0.25", "--learning_rate", "1e-2",
                    "--load_best_model_at_end", "--create_checkpoint_symlink", "--save_total_limit", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string split = read("out/val_dataset.jsonl");
  EXPECT_EQ(std::count(split.begin(), split.end(), '\n'), 24);
  EXPECT_TRUE(fs::exists(path("out/best/adapter_model.safetensors")));
  EXPECT_TRUE(fs::exists(path("out/last/adapter_model.safetensors")));
  const auto answers = run({"infer", "--adapters", path("out/last").string(), "--load_data_args", "--max_new_tokens",
                            "4", "--temperature", "0", "--metric", "acc"},
                           options_);
  ASSERT_EQ(answers.status, 0) << answers.err;
  EXPECT_EQ(std::count(answers.out.begin(), answers.out.end(), '\n'), 24);
  EXPECT_NE(answers.err.find("of 24 rows with a label"), std::string::npos) << answers.err;
}

TEST_F(Training, FlagsChangeWhatTheySay) {
  const auto loss = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--max_steps", "2", "--save_strategy", "no"});
    const auto outcome = train(name, std::move(more));
    EXPECT_EQ(outcome.status, 0) << name << ": " << outcome.err;
    const auto losses = logged(name, "loss");
    return losses.empty() ? std::string("none") : losses.back();
  };
  const auto plain = loss("plain", {});
  EXPECT_EQ(loss("again", {"--dataset_num_proc", "3", "--load_from_cache_file", "false"}), plain);
  EXPECT_NE(loss("grouped", {"--group_by_length"}), plain);
  EXPECT_NE(loss("packed", {"--packing", "--packing_length", "64"}), plain);
  EXPECT_NE(loss("system", {"--system", "Add."}), plain);
  EXPECT_NE(loss("seed", {"--seed", "7"}), plain);
  EXPECT_NE(loss("regex", {"--target_regex", ".*layers\\.0\\..*q_proj"}), plain);
  const auto config = read("regex/args.json");
  EXPECT_NE(config.find("\"target_regex\": \".*layers"), std::string::npos);
  const auto columns = scratch_.write("columns.jsonl", "{\"frage\": \"1 + 1\", \"antwort\": \"2\"}\n");
  const auto mapped =
      run({"sft", "--model", path("model").string(), "--dataset", columns, "--output_dir", path("columns").string(),
           "--max_steps", "1", "--columns", R"({"frage": "query", "antwort": "response"})"},
          options_);
  EXPECT_EQ(mapped.status, 0) << mapped.err;
}

}  // namespace
}  // namespace tern::e2e
