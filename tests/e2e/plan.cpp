// `tern plan` names the memory that the run then takes, and a run that lacks memory says what to change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/json.h"
#include "page.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

class Plan : public TinyTraining {
 protected:
  Plan() : TinyTraining(sums(24)) { use_heads_of_16(); }
  [[nodiscard]] Options on(const std::string& personality) const {
    Options options = options_;
    if (!personality.empty()) options.variables["TERN_SIM"] = personality;
    return options;
  }
  // The command with the words of a run.
  [[nodiscard]] io::Json planned(std::vector<std::string> words, const Options& options) const {
    words[0] = "plan";
    words.emplace_back("--json");
    const Outcome outcome = run(words, options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    auto json = io::parse_json(outcome.out, "the plan");
    EXPECT_TRUE(json.ok()) << outcome.out;
    return json.ok() ? *json : io::Json();
  }
};

// What is planned is what the device counts at most, whatever is trained, stored and recomputed.
TEST_F(Plan, IsThePeakOfTheRun) {
  const std::vector<std::vector<std::string>> kinds = {
      {"--tuner_type", "lora", "--gradient_checkpointing", "false"},
      {"--tuner_type", "lora", "--torch_dtype", "bfloat16", "--per_device_train_batch_size", "2"},
      {"--tuner_type", "full", "--learning_rate", "1e-3", "--gradient_checkpointing", "false"},
      {"--tuner_type", "full", "--torch_dtype", "bfloat16", "--split_dataset_ratio", "0.25"},
      {"--tuner_type", "lora", "--quant_method", "bnb", "--lora_rank", "4", "--activation_dtype", "bfloat16"},
      {"--tuner_type", "full", "--lisa_activated_layers", "1", "--gradient_checkpointing", "false"},
      {"--init_weights", "lora-ga", "--lora_rank", "2", "--torch_dtype", "bfloat16"},
      {"--tuner_type", "full", "--use_galore", "true", "--galore_quantization", "true", "--galore_rank", "16",
       "--galore_proj_quant", "true", "--galore_proj_group_size", "32"},
  };
  std::set<std::uint64_t> peaks;
  const std::map<std::string, std::size_t> simulated = {{"discrete", 0}, {"ascend", 2}, {"graph", 4}, {"embedded", 2}};
  for (const std::string personality : {"", "discrete", "ascend", "graph", "embedded"}) {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!personality.empty() && simulated.at(personality) != kind) continue;  // a simulated device is slow
      SCOPED_TRACE(personality + " " + std::to_string(kind));
      const std::string output = "out-" + personality + std::to_string(kind);
      std::vector<std::string> words =
          sft(output, {"--device", personality.empty() ? "cpu" : "sim:0", "--max_steps", "2", "--save_strategy", "no"});
      words.insert(words.end(), kinds[kind].begin(), kinds[kind].end());
      const io::Json plan = planned(words, on(personality));
      const Outcome trained = run(words, on(personality));
      ASSERT_EQ(trained.status, 0) << trained.err;
      const auto logged_peaks = logged(output, "memory\\(GiB\\)");
      ASSERT_FALSE(logged_peaks.empty());
      const double real = std::stod(logged_peaks.back()) * 1024 * 1024 * 1024;
      const auto peak = plan["memory"]["peak"].get<std::uint64_t>();
      EXPECT_NEAR(static_cast<double>(peak) / real, 1.0, 0.03) << trained.err;
      EXPECT_TRUE(plan["fits"].get<bool>());
      peaks.insert(peak);
      // Before the weights are loaded it is told.
      const auto told = trained.err.find("plan: "), loaded = trained.err.find("model: ");
      EXPECT_LT(told, loaded) << trained.err;
    }
  }
  EXPECT_GT(peaks.size(), 8U);  // the figures are of these runs
}

TEST_F(Plan, SaysWhatToChangeWhereARunCannotFit) {
  const std::vector<std::string> words =
      sft("out", {"--device", "sim:0", "--max_steps", "1", "--tuner_type", "lora", "--gradient_checkpointing", "false",
                  "--per_device_train_batch_size", "8"});
  const auto peak = planned(words, on("discrete"))["memory"]["peak"].get<std::uint64_t>();
  for (const std::string& limit : {"memory_limit=" + std::to_string(peak * 7 / 10), std::string("faults=oom@9")}) {
    SCOPED_TRACE(limit);
    std::vector<std::string> little = words;
    little.insert(little.end(), {"--device_options", limit});
    const Outcome outcome = run(little, on("discrete"));
    EXPECT_EQ(outcome.status, 4) << outcome.err;
    const std::string line = outcome.last_error_line();
    for (const char* part : {"sim:0", "--gradient_checkpointing true (", "--per_device_train_batch_size 4 (",
                             "--lora_rank 4 (", " GB less)", "tern plan"}) {
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nlacks: " << part;
    }
  }
}

// A change that is said to fit does.
TEST_F(Plan, ChangesThatFitDo) {
  std::vector<std::string> words =
      sft("out", {"--device", "cpu", "--per_device_train_batch_size", "8", "--gradient_checkpointing", "false"});
  const auto whole = planned(words, on(""));
  const auto least = whole["memory"]["peak"].get<std::uint64_t>() * 8 / 10;
  words.insert(words.end(), {"--device_memory", std::to_string(least)});
  const auto plan = planned(words, on(""));
  EXPECT_FALSE(plan["fits"].get<bool>());
  ASSERT_FALSE(plan["changes"].empty());
  bool any = false;
  for (const auto& change : plan["changes"]) {
    std::vector<std::string> changed = words;
    const auto setting = change["setting"].get<std::string>();
    std::istringstream parts(setting);
    for (std::string word; parts >> word;) changed.push_back(word);
    const auto again = planned(changed, on(""));
    EXPECT_EQ(again["fits"].get<bool>(), change["fits"].get<bool>()) << setting;
    any = any || change["fits"].get<bool>();
  }
  EXPECT_TRUE(any);
}

// Its config.json alone is enough, and no weights are made: seventy thousand million of them fit into no test.
TEST_F(Plan, NeedsNoWeights) {
  const std::string configs = std::string(TERN_SOURCE_DIR) + "/examples/plan/";
  const auto of = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", "--model", configs + model, "--max_length", "2048", "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return planned(words, on(""));
  };
  const auto seven = of("qwen2.5-7b", {});
  const auto beside = [](const io::Json& plan) {
    return plan["memory"]["peak"].get<double>() + plan["host"]["mapped"].get<double>();
  };
  EXPECT_GT(beside(seven), 14.1e9);  // 7.6e9 parameters of two bytes, less what is looked up
  EXPECT_LT(beside(seven), 28e9);
  EXPECT_FALSE(of("llama-3.1-70b", {"--device_memory", "64GiB", "--tuner_type", "full"})["fits"].get<bool>());
  EXPECT_GT(of("llama-3.1-70b", {"--tuner_type", "full", "--device_memory", "2TB"})["memory"]["peak"].get<double>(),
            4 * 4 * 70e9);
}

// How quantised weights are stored only they themselves say.
TEST_F(Plan, AQuantisedConfigAloneIsNotEnough) {
  (void)scratch_.write("awq/config.json",
                       "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 64, "
                       "\"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 1, "
                       "\"num_attention_heads\": 2, \"quantization_config\": {\"quant_method\": \"awq\"}}");
  const Outcome outcome = run({"plan", "--model", path("awq").string(), "--max_length", "64"}, options_);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_NE(outcome.last_error_line().find("found quantization_config alone; plan with the weights"), std::string::npos)
      << outcome.err;
}

TEST_F(Plan, PageRuns) { run_page("docs/memory.md", 4); }

}  // namespace
}  // namespace tern::e2e
