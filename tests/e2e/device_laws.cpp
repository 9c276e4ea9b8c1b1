// What holds between devices: the same answers, checkpoints that move from one to another, errors before the run, and
// no harm from a vendor's library that is broken.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "deployed.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

struct Place {
  const char* name;  // of its folders
  const char* device;
  std::map<std::string, std::string> variables;
};

std::vector<Place> places() {
  std::vector<Place> out = {{"cpu", "cpu", {}}, {"sim", "sim:0", {}}};
#ifdef TERN_WITH_OPENCL
  out.push_back({"opencl", "opencl:0", {}});
#endif
#ifdef TERN_FAKE_CANN
  out.push_back({"ascend", "npu:0", {{"TERN_FAKE_CANN_CHIP", "910B1"}, {"LD_LIBRARY_PATH", TERN_FAKE_CANN}}});
  out.push_back({"ascend310p", "npu:0", {{"TERN_FAKE_CANN_CHIP", "310P3"}, {"LD_LIBRARY_PATH", TERN_FAKE_CANN}}});
#endif
  return out;
}

class DeviceLaws : public TinyTraining {
 protected:
  DeviceLaws() : TinyTraining(sums(12)) { use_heads_of_16(); }
  [[nodiscard]] Options at(const Place& place) const {
    Options options = options_;
    options.seconds = 300;
    options.variables.insert(place.variables.begin(), place.variables.end());
    return options;
  }
  // Steps of an adapter's training in float32, from a checkpoint on if one is given; its losses.
  [[nodiscard]] std::vector<double> train(const Place& place, const std::string& output, int steps,
                                          const std::string& from = "") const {
    // clang-format off
    auto words = sft(output, {
        "--device", place.device, "--fallback", "forbid", "--activation_dtype", "float32", "--learning_rate", "1e-2", "--max_steps",
        std::to_string(steps), "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2",
        "--save_strategy", "steps", "--save_steps", "2", "--lr_scheduler_type", "constant"});
    // clang-format on
    if (!from.empty()) words.insert(words.end(), {"--resume_from_checkpoint", path(from).string()});
    const Outcome outcome = run(words, at(place));
    EXPECT_EQ(outcome.status, 0) << place.name << ": " << outcome.err;
    std::vector<double> losses;
    for (const std::string& loss : logged(output, "loss")) losses.push_back(std::stod(loss));
    return losses;
  }
};

// Greedy answers in float32 are the same tokens everywhere, and a text's log-probabilities the same numbers.
TEST_F(DeviceLaws, EveryDeviceSaysTheSame) {
  const std::string texts = scratch_.write("texts.jsonl", "{\"text\": \"1+2=3, and 4+5=9\"}\n{\"text\": \"7+1=8\"}\n");
  std::string answer;
  double loss = 0;
  for (const Place& place : places()) {
    Options options = at(place);
    options.input = "1+2=";
    const Outcome said =
        run({"infer", "--model", path("model").string(), "--device", place.device, "--fallback", "forbid",
             "--torch_dtype", "float32", "--temperature", "0", "--max_new_tokens", "12", "--max_model_len", "128"},
            options);
    ASSERT_EQ(said.status, 0) << place.name << ": " << said.err;
    const Outcome scored =
        run({"score", "--model", path("model").string(), "--device", place.device, "--fallback", "forbid",
             "--torch_dtype", "float32", "--activation_dtype", "float32", "--dataset", texts},
            at(place));
    ASSERT_EQ(scored.status, 0) << place.name << ": " << scored.err;
    const std::string row = scored.out.substr(0, scored.out.find('\n'));
    const double here = io::parse_json(row, "score").value()["loss"].get<double>();
    if (std::string(place.name) == "cpu") {
      answer = said.out;
      loss = here;
      ASSERT_GT(answer.size(), 3U);
      ASSERT_GT(loss, 0.5);
    }
    EXPECT_EQ(said.out, answer) << place.name;
    EXPECT_NEAR(here, loss, 2e-5 * loss) << place.name;
  }
}

// A server on each device gives the same greedy answers in float32, several at once.
TEST_F(DeviceLaws, EveryDeviceServesTheSame) {
  std::vector<std::string> expected;
  for (const Place& place : places()) {
    const Deployed server(
        path("model"),
        {"--fallback", "forbid", "--torch_dtype", "float32", "--activation_dtype", "float32", "--max_model_len", "128"},
        place.device, at(place).variables);
    // The first answer waits until a device that compiles at run time has its kernels, longer than this client does.
    const std::string first = R"({"max_tokens": 2, "prompt": "1+2="})";
    for (int i = 0; i < 20 && server.post("/v1/completions", first).status == 0; ++i) continue;
    std::vector<std::string> answers(3);
    std::vector<std::thread> clients;
    for (int i = 0; i < 3; ++i) {
      clients.emplace_back([&, i] {
        const HttpReply reply =
            server.post("/v1/completions", R"({"max_tokens": 10, "temperature": 0, "ignore_eos": true, "prompt": ")" +
                                               std::to_string(i) + "+" + std::to_string(i + 3) + "=\"}");
        answers[static_cast<std::size_t>(i)] =
            reply.status == 200 ? json_of(reply)["choices"][0]["text"].text() : reply.body;
      });
    }
    for (std::thread& client : clients) client.join();
    if (expected.empty()) expected = answers;
    EXPECT_EQ(answers, expected) << place.name;
    EXPECT_FALSE(answers[0].empty());
  }
}

// A checkpoint of each device goes on on the next: the losses are those of a run that stayed at home.
TEST_F(DeviceLaws, ACheckpointOfAnyDeviceResumesOnAnyOther) {
  const std::vector<Place> all = places();
  const std::vector<double> expected = train(all[0], "whole", 4);
  ASSERT_EQ(expected.size(), 4U);
  for (const Place& place : all) {
    const std::vector<double> first = train(place, std::string("begun-") + place.name, 2);
    ASSERT_EQ(first.size(), 2U) << place.name;
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(first[i], expected[i], 1e-4 * expected[i]) << place.name;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Place& to = all[(i + 1) % all.size()];
    const std::string output = std::string("begun-") + all[i].name;  // where it goes on
    const std::vector<double> losses = train(to, output, 4, output + "/checkpoint-2");
    ASSERT_EQ(losses.size(), 4U) << all[i].name << " to " << to.name;
    for (std::size_t step = 2; step < 4; ++step) {
      EXPECT_NEAR(losses[step], expected[step], 1e-4 * expected[step]) << all[i].name << " to " << to.name;
    }
  }
}

#ifdef TERN_FAKE_CANN
// A named device that lacks a kernel: the error names op, shape and dtype, and nothing was run or written.
TEST_F(DeviceLaws, AMissingKernelIsAnErrorBeforeAnythingRuns) {
  const Place place = {"lacking",
                       "npu:0",
                       {{"TERN_FAKE_CANN_CHIP", "910B1"},
                        {"LD_LIBRARY_PATH", TERN_FAKE_CANN},
                        {"TERN_FAKE_CANN_WITHOUT", "aclnnSilu,aclnnSwiGlu,aclnnSigmoid"},
                        {"TERN_FAKE_CANN_FAULT", "launch@1"}}};
  const Outcome outcome = run(sft("lacking", {"--device", "npu:0", "--fallback", "forbid", "--activation_dtype",
                                              "float32", "--max_steps", "1"}),
                              at(place));
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  const std::string line = outcome.last_error_line();
  for (const char* word : {"op act_mul(f32[", "npu:0 has neither a kernel nor a decomposition", "aclnnSi"})
    EXPECT_NE(line.find(word), std::string::npos) << line;
  EXPECT_FALSE(std::filesystem::exists(path("lacking/checkpoint-1")));
}
#endif

// Vendors' libraries that crash, end the process, hang or lie cost their own devices alone. They're asked in a child
// process, once: the verdict is remembered, and a run on a device that was named never loads them.
class BrokenVendor : public DeviceLaws, public ::testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] Options broken() const {
    Options options = options_;
    options.seconds = 60;
    // OpenCL's loader opens the drivers that files name; CANN has no such loader.
    std::filesystem::create_directories(path("icd"));
    std::ofstream(path("icd/broken.icd")) << TERN_BROKEN_VENDOR "/libbroken_icd.so\n";
    options.variables["OCL_ICD_VENDORS"] = path("icd").string();
    options.variables["LD_LIBRARY_PATH"] = TERN_BROKEN_VENDOR;
    options.variables["TERN_TEST_VENDOR"] = GetParam();
    options.variables["TERN_TEST_LOADED"] = path("loaded").string();
    return options;
  }
  [[nodiscard]] std::size_t loads() const {
    std::ifstream in(path("loaded"));
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  [[nodiscard]] Outcome answer(const std::vector<std::string>& more) const {
    Options options = broken();
    options.input = "1+2=";
    std::vector<std::string> words = {"infer",           "--model", path("model").string(), "--max_new_tokens", "2",
                                      "--max_model_len", "64"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options);
  }
};

TEST_P(BrokenVendor, CostsItsOwnDevicesAlone) {
  const Outcome named = answer({"--device", "cpu"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_EQ(loads(), 0U) << "a run on a named device loaded another vendor's library";

  const Outcome listed = run({"devices"}, broken());
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_NE(listed.out.find("cpu:0"), std::string::npos) << listed.out;
  EXPECT_EQ(listed.out.find("opencl:0"), std::string::npos) << listed.out;
  EXPECT_EQ(listed.out.find("npu:0"), std::string::npos) << listed.out;
  const std::size_t before = loads();
  EXPECT_GT(before, 0U) << "nothing was tried";

  const Outcome chosen = answer({});
  EXPECT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_NE(chosen.err.find("cpu:0"), std::string::npos) << chosen.err;
  // What a library says itself may be otherwise tomorrow; that it brought its process down is remembered.
  if (std::string(GetParam()) != "lie") {
    EXPECT_EQ(loads(), before) << "the verdict was not remembered";
  }
}
INSTANTIATE_TEST_SUITE_P(Each, BrokenVendor, ::testing::Values("crash", "exit", "hang", "lie"));

}  // namespace
}  // namespace tern::e2e
