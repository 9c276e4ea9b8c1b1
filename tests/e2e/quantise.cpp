// --quant_method as a user types it: weights are quantised while they are loaded, and a line tells the memory.
#include <gtest/gtest.h>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class Quantise : public ::testing::Test {
 protected:
  Quantise() {
    write_tiny_model(path("model"));
    (void)scratch_.write("rows.jsonl", sums(8));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }
  [[nodiscard]] Outcome infer(const std::vector<std::string>& words, const std::string& model = "model") const {
    std::vector<std::string> all = {"infer", "--model", path(model), "--temperature", "0", "--max_new_tokens", "6"};
    all.insert(all.end(), words.begin(), words.end());
    Options options;
    options.input = "1 + 2\n";
    return run(all, options);
  }
  static void expect_line(const Outcome& outcome, const std::string& numbers) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("weights of linear layers were quantised to " + numbers + ": 0.0 MB in place of "),
              std::string::npos)
        << outcome.err;
  }
  Scratch scratch_;
};

TEST_F(Quantise, InferAnswersWithEachMethod) {
  expect_line(infer({"--quant_method", "bnb"}), "nf4 with scales of 8 bits");
  expect_line(infer({"--quant_method", "bnb", "--quant_bits", "4", "--bnb_4bit_use_double_quant", "false"}), "nf4");
  expect_line(infer({"--quant_method", "bnb", "--quant_bits", "8"}), "int8");
  expect_line(infer({"--quant_method", "int8"}), "int8");
  expect_line(infer({"--quant_method", "fp8"}), "fp8");
  EXPECT_EQ(infer({}).err.find("quantised"), std::string::npos);
}

TEST_F(Quantise, AnAdapterTrainsOverThem) {
  const auto trained =
      run({"sft", "--model", path("model"), "--dataset", path("rows.jsonl"), "--max_steps", "2", "--output_dir",
           path("out"), "--add_version", "false", "--quant_method", "bnb", "--quant_bits", "4"});
  expect_line(trained, "nf4 with scales of 8 bits");
  expect_line(infer({"--quant_method", "bnb", "--adapters", path("out/checkpoint-2")}), "nf4 with scales of 8 bits");
}

TEST_F(Quantise, WhatCannotBeIsRefused) {
  const auto refused = [](const Outcome& outcome, const char* why) {
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(why), std::string::npos) << outcome.last_error_line();
  };
  refused(infer({"--quant_method", "int8", "--quant_bits", "4"}), "--quant_method int8 has 8 bits, not 4");
  refused(infer({"--quant_bits", "4"}), "no weight is quantised");
  refused(infer({"--quant_method", "fp8", "--bnb_4bit_use_double_quant", "false"}), "no weight is quantised to 4 bits");
  refused(infer({"--quant_method", "bnb", "--bnb_4bit_quant_type", "fp4"}), "not implemented");
  refused(run({"sft", "--model", path("model"), "--dataset", path("rows.jsonl"), "--max_steps", "1", "--output_dir",
               path("full"), "--tuner_type", "full", "--quant_method", "bnb"}),
          "which is trained");
  ASSERT_EQ(run({"convert", path("model"), path("small.gguf"), "--outtype", "q8_0"}).status, 0);
  refused(infer({"--quant_method", "bnb"}, "small.gguf"), "Q8_0 already");
}

}  // namespace
}  // namespace tern::e2e
