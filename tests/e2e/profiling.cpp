// --profile: some steps of a run as a trace, on devices that say when their work ran and on one that doesn't.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/support/parsed_json.h"
#include "tests/support/trace_events.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using test::TraceEvent;

class Profiling : public TinyTraining {
 protected:
  Profiling() : TinyTraining(sums(12)) { use_heads_of_16(); }

  [[nodiscard]] io::Json trace(const std::string& name) const { return test::parsed_json(std::ifstream(path(name))); }
  // clang-format off
  [[nodiscard]] std::vector<std::string> profiled(const std::string& output, const std::string& device,
                                                  const std::vector<std::string>& more = {}) const {
    auto words = sft(output, {
        "--device", device, "--max_steps", "5", "--save_steps", "5", "--learning_rate", "1e-2",
        "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // clang-format on
};

const TraceEvent& named(const std::vector<TraceEvent>& events, const std::string& name) {
  const auto found = std::find_if(events.begin(), events.end(), [&](const TraceEvent& it) { return it.name == name; });
  if (found == events.end()) throw std::runtime_error("the trace has no " + name);
  return *found;
}

std::multiset<std::string> names_within(const std::vector<TraceEvent>& events, const TraceEvent& outer) {
  std::multiset<std::string> out;
  for (const TraceEvent& event : events) {
    if (event.process == outer.process && event.begin >= outer.begin && event.end() <= outer.end())
      out.insert(event.name);
  }
  return out;
}

TEST_F(Profiling, ATrainingStepIsThereWithItsOpsAndChangesNoBit) {
  for (const std::string device : {"cpu", "discrete", "embedded"}) {
    SCOPED_TRACE(device);
    if (device != "cpu") options_.variables["TERN_SIM"] = device;
    const std::string on = device == "cpu" ? "cpu" : "sim:0";
    const std::string plain = "plain-" + device;
    const std::string traced = "traced-" + device;
    ASSERT_EQ(run(profiled(plain, on), options_).status, 0);
    const Outcome outcome = run(profiled(traced, on, {"--profile", path("t/trace.json").string()}), options_);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("profile of 3 steps: "), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("the host times each op alone") != std::string::npos, device == "embedded");
    expect_same_checkpoint(plain + "/checkpoint-5", traced + "/checkpoint-5");

    const io::Json file = trace("t/trace.json");
    EXPECT_EQ(file["otherData"]["steps"].get<int>(), 3);
    EXPECT_FALSE(file["otherData"]["cut"].get<bool>());
    const auto events = test::trace_events(file);
    EXPECT_EQ(test::badly_nested(events), "");
    std::multiset<std::string> steps;
    for (const TraceEvent& event : events) {
      if (event.category == "step") steps.insert(event.name);
    }
    EXPECT_EQ(steps, (std::multiset<std::string>{"step 2", "step 3", "step 4"}));
    for (const std::string& name : steps) {
      const TraceEvent& step = named(events, name);
      const auto spans = names_within(events, step);
      EXPECT_EQ(spans.count("wait for data"), 1U);
      EXPECT_EQ(spans.count("gather data"), 2U) << "of each micro-batch";
      EXPECT_EQ(spans.count("micro-batch"), 2U);
      EXPECT_EQ(spans.count("optimizer"), 1U);
      const auto ops = test::device_events_in(events, step);
      EXPECT_LE(test::busiest_row(ops), step.seconds);
      std::multiset<std::string> of_device;
      for (const TraceEvent& event : ops) of_device.insert(event.name);
      EXPECT_EQ(of_device.count("linear_cross_entropy"), 2U);
      EXPECT_GT(of_device.count("matmul"), 20U);
      EXPECT_GT(of_device.count("adamw"), 0U);
      EXPECT_EQ(of_device.count("upload inputs"), 2U) << "of each micro-batch";
      EXPECT_NE(named(ops, "matmul").arguments["shapes"].text().find(" -> "), std::string::npos);
    }
    fs::remove(path("t/trace.json"));
  }
}

TEST_F(Profiling, StepsOfAnAnswerAreThoseOfTheEngine) {
  options_.variables["TERN_SIM"] = "discrete";
  for (const std::string device : {"cpu", "sim:0"}) {
    SCOPED_TRACE(device);
    Options options = options_;
    options.input = "1+2=";
    // clang-format off
    std::vector<std::string> words = {
        "infer", "--model", path("model").string(), "--device", device, "--torch_dtype", "float32", "--temperature", "0",
        "--max_new_tokens", "6", "--max_model_len", "128"};
    // clang-format on
    const Outcome plain = run(words, options);
    for (const char* word : {"--profile", "trace.json", "--profile_steps", "2-3"}) words.emplace_back(word);
    const Outcome outcome = run(words, options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, plain.out) << "a capture that wasn't told of traced steps draws other tokens";
    const auto events = test::trace_events(trace("trace.json"));
    EXPECT_EQ(test::badly_nested(events), "");
    const TraceEvent& step = named(events, "step 2");
    EXPECT_NO_THROW((void)named(events, "step 3"));
    EXPECT_THROW((void)named(events, "step 1"), std::runtime_error);
    EXPECT_THROW((void)named(events, "step 4"), std::runtime_error);
    const auto spans = names_within(events, step);
    EXPECT_EQ(spans.count("launch"), 1U);
    EXPECT_EQ(spans.count("wait for the device"), 1U);
    const auto ops = test::device_events_in(events, step);
    EXPECT_LE(test::busiest_row(ops), step.seconds);
    for (const char* op : {"attention_paged", "rms_norm", "upload inputs", "sample"})
      EXPECT_NO_THROW((void)named(ops, op));
    fs::remove(path("trace.json"));
  }
}

TEST_F(Profiling, ARunThatEndsBeforeItsStepsSaysSo) {
  const Outcome outcome = run(sft("short", {"--max_steps", "1", "--profile", path("trace.json").string()}), options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no profile was written: the run ended before step 2; give --profile_steps 1"),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("trace.json")));
}

}  // namespace
}  // namespace tern::e2e
