// The same model trains and generates on the cpu and on every device that we cannot run: if one of these fails, the
// interface asks something of a device that some device cannot give.
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

constexpr const char* kPersonalities[] = {"discrete", "ascend", "graph", "embedded"};

class Personalities : public TinyTraining {
 protected:
  Personalities() : TinyTraining(sums(12)) { use_heads_of_16(); }

  [[nodiscard]] Options on(const std::string& personality) const {
    Options options = options_;
    if (personality != "cpu") options.variables["TERN_SIM"] = personality;
    if (personality == "graph") options.variables["TERN_SIM_GRAPH_NODES"] = "128";  // fewer than a step's
    return options;
  }
  [[nodiscard]] static std::string device(const std::string& personality) {
    return personality == "cpu" ? "cpu" : "sim:0";
  }
  [[nodiscard]] std::vector<double> train(const std::string& personality) const {
    const std::string output = "out-" + personality;
    // clang-format off
    const auto words = sft(output, {
        "--val_dataset", rows_ + "#2", "--device", device(personality), "--learning_rate", "1e-2", "--max_steps", "3",
        "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2", "--save_strategy", "epoch",
        "--eval_strategy", "epoch"});
    // clang-format on
    const Outcome outcome = run(words, on(personality));
    EXPECT_EQ(outcome.status, 0) << personality << ": " << outcome.err;
    std::vector<double> losses;
    for (const std::string& loss : logged(output, "(?:eval_)?loss")) losses.push_back(std::stod(loss));
    return losses;
  }
  // The embedded device draws no random bits: its sampling falls back to the host, where the user permits it.
  [[nodiscard]] std::string generate(const std::string& personality) const {
    Options options = on(personality);
    options.input = "1+2=";
    const Outcome outcome = run(
        {"infer", "--model", path("model").string(), "--adapters", path("out-cpu/checkpoint-3").string(), "--device",
         device(personality), "--torch_dtype", "float32", "--fallback", personality == "embedded" ? "warn" : "forbid",
         "--temperature", "0", "--max_new_tokens", "6", "--max_model_len", "128"},
        options);
    EXPECT_EQ(outcome.status, 0) << personality << ": " << outcome.err;
    return outcome.out;
  }
};

TEST_F(Personalities, TrainAndGenerateAsTheCpuDoes) {
  const std::vector<double> expected = train("cpu");
  ASSERT_GE(expected.size(), 4U) << "three steps and an evaluation";
  const std::string answer = generate("cpu");
  for (const char* personality : kPersonalities) {
    const std::vector<double> found = train(personality);
    ASSERT_EQ(found.size(), expected.size()) << personality;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << personality << ", line " << i;
    }
    EXPECT_EQ(generate(personality), answer) << personality;
  }
}

// The table of embeddings, the head, their gradients and their moments are in parts of rows there, and what is saved is
// whole.
TEST_F(Personalities, ADeviceThatAllocatesLittleAtATimeTrainsAlike) {
  const auto train_full = [&](const std::string& output, const Options& options, const std::string& device) {
    const Outcome outcome = run(sft(output, {"--train_type", "full", "--device", device, "--learning_rate", "1e-3",
                                             "--max_steps", "2", "--max_length", "64", "--save_strategy", "epoch"}),
                                options);
    EXPECT_EQ(outcome.status, 0) << device << ": " << outcome.err;
    std::vector<double> numbers;
    for (const char* key : {"loss", "grad_norm"}) {
      for (const std::string& number : logged(output, key)) numbers.push_back(std::stod(number));
    }
    return numbers;
  };
  const auto answer = [&](const std::string& output) {
    Options asked = options_;
    asked.input = "1+2=";
    const Outcome outcome =
        run({"infer", "--model", path(output + "/checkpoint-2").string(), "--device", "cpu", "--torch_dtype", "float32",
             "--temperature", "0", "--max_new_tokens", "6", "--max_model_len", "64"},
            asked);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  Options little = on("discrete");
  little.variables["TERN_SIM_LARGEST"] = "25000";
  const std::vector<double> expected = train_full("whole", options_, "cpu");
  const std::vector<double> found = train_full("parts", little, "sim:0");
  ASSERT_EQ(found.size(), 4U);
  ASSERT_EQ(expected.size(), 4U);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i]));
  EXPECT_EQ(answer("parts"), answer("whole"));
}

// A graph that is too large for the compiler was trained in halves: so the losses above are those of both.
TEST_F(Personalities, AGraphThatIsTooLargeIsSplit) {
  (void)train("graph");
  std::string choices;
  for (const auto& entry : std::filesystem::directory_iterator(path("home") / "choices")) {
    if (entry.path().extension() == ".choices") choices += read("home/choices/" + entry.path().filename().string());
  }
  EXPECT_NE(choices.find("halves of graph of "), std::string::npos) << choices;
}

TEST_F(Personalities, FaultsEndWithTheErrorLineAndTheDevicesExitCode) {
  struct Case {
    const char* fault;
    const char* words;
    int status;
  };
  for (const auto& [fault, words, status] :
       {Case{"oom@3", "memory", 4}, Case{"host@2", "out of host memory", 4}, Case{"lost@5", "lost", 4},
        Case{"async@5", "asynchronous", 1}, Case{"hang@5", "hasn't ended after 500 ms: the device hangs", 1}}) {
    Options options = on("discrete");
    options.variables["TERN_SIM_TIMEOUT_MS"] = "500";
    options.seconds = 60;
    options.variables["TERN_SIM_FAULT"] = fault;
    const Outcome outcome = run({"sft", "--model", path("model").string(), "--dataset", rows_, "--output_dir",
                                 path("faulty").string(), "--device", "sim:0", "--max_steps", "1"},
                                options);
    EXPECT_NE(outcome.status, 0) << fault;
    EXPECT_EQ(outcome.last_error_line().rfind("tern: error: ", 0), 0U) << fault << ": " << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(words), std::string::npos) << fault << ": " << outcome.last_error_line();
    EXPECT_NE(outcome.last_error_line().find("sim:0"), std::string::npos) << fault << ": " << outcome.err;
    EXPECT_EQ(outcome.status, status) << fault << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace tern::e2e
