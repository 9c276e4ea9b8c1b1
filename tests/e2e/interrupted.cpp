// Ctrl-C ends each command that takes its time with exit status 75 and one line that says what was kept. sft's is in
// training.cpp: it saves first.
#include <atomic>
#include <chrono>
#include <thread>

#include "../unit/hub/fake_hub.h"
#include "failing.h"

namespace tern::e2e {
namespace {

class Interrupted : public Failing {
 protected:
  // `words` are interrupted where `begun` says so, else where they have written `text`.
  void expect_interrupted(const std::vector<std::string>& words, const std::string& text,
                          const std::function<bool()>& begun, const std::string& line) const {
    Options options = options_;
    options.signal = SIGINT;
    options.signal_after = text;
    options.signal_when = begun;
    expect_line(words, 75, line, options);
  }
  [[nodiscard]] std::function<bool()> filled(const std::string& file) const {
    return [file = path(file)] {
      std::error_code absent;
      return fs::file_size(file, absent) > 0 && !absent;
    };
  }
  [[nodiscard]] std::string texts(int rows) const {
    std::string out;
    for (int i = 0; i < rows; ++i) out += "{\"text\": \"a text of some forty characters, more or less\"}\n";
    return scratch_.write("texts.jsonl", out);
  }
};

TEST_F(Interrupted, RowsThatWereAnsweredAreKept) {
  Options options = options_;
  options.signal = SIGINT;
  options.signal_when = filled("answers");
  expect({"infer", "--model", model(), "--val_dataset", scratch_.write("many.jsonl", sums(4000)), "--max_new_tokens",
          "8", "--result_path", path("answers").string()},
         75,
         {"tern: error: the run was stopped after ",
          " rows were answered and written; run it again, and it goes on behind them."},
         options);
}

TEST_F(Interrupted, AnAnswerToAPipeThatWasCutIsNoSuccess) {
  TinyModel endless;
  endless.max_positions = 20'000;
  write_tiny_model(path("endless"), endless);
  std::vector<std::string> words = {"infer",         "--model", path("endless").string(), "--stream",
                                    "--temperature", "0",       "--max_new_tokens",       "8"};
  Options options = options_;
  options.input = "tell me all";
  std::string begin = run(words, options).out;
  begin.pop_back();  // the newline after it
  ASSERT_FALSE(begin.empty());
  words.back() = "19000";
  options.signal = SIGINT;
  options.signal_after = begin;
  expect_line(words, 75, "the answer was stopped before it was complete; run it again.", options);
}

TEST_F(Interrupted, ScoreTokenizeAndConvertStop) {
  expect_interrupted({"score", "--model", model(), "--dataset", texts(4000), "--result_path", path("scores").string()},
                     "", filled("scores"), "scoring was stopped before all rows had a score; run it again.");
  expect_interrupted(
      {"tokenize", "--model", model(), "--dataset", texts(400'000), "--result_path", path("ids").string()}, "",
      filled("ids"), "tokenising was stopped before all rows were written; run it again.");
  TinyModel large;
  large.hidden = 512;
  large.intermediate = 2048;
  write_tiny_model(path("large"), large);
  const auto begun = [this] { return !fs::is_empty(path("converted")); };
  fs::create_directory(path("converted"));
  expect_interrupted({"convert", path("large").string(), path("converted/model.gguf").string(), "--outtype", "q4_k"},
                     "", begun, "the conversion was stopped, and nothing was written; run it again.");
  EXPECT_TRUE(fs::is_empty(path("converted")));
}

TEST_F(Interrupted, MeasurementsAndTestsStop) {
  expect_interrupted({"bench", "--model", model(), "--prompt_length", "16", "--max_new_tokens", "400", "--batch_size",
                      "1", "64", "64", "64"},
                     "model: ", {}, "the measurement was stopped before it was complete; run it again.");
  TinyModel large;
  large.hidden = 512;
  large.intermediate = 2048;
  write_tiny_model(path("large"), large);
  expect_interrupted({"selftest", "--device", "cpu", "--model", path("large").string()}, "model: ", {},
                     "the selftest was stopped before all ops were checked; run it again.");
  expect_interrupted({"selftest", "--device", "cpu"}, "device: ", {},
                     "the selftest was stopped before all ops were tested; run it again.");
}

TEST_F(Interrupted, WhatWasFetchedIsKept) {
  std::atomic<bool> asked = false;
  const std::string commit(40, 'c');
  const std::string body(std::size_t{1} << 22, ' ');
  hub::FakeHub hub([&](const hub::FakeRequest& request) -> hub::FakeReply {
    if (request.target.starts_with("/api/models/org/words/revision/main")) {
      return {200, R"({"sha":")" + commit + R"(","siblings":[{"rfilename":"tokenizer.json","size":4194304}]})", {}};
    }
    asked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the signal is on its way
    return {200, body, {}};
  });
  Options options = options_;
  options.variables["HF_ENDPOINT"] = hub.url();
  options.variables["HF_HUB_CACHE"] = path("hub").string();
  options.signal = SIGINT;
  options.signal_when = [&] { return asked.load(); };
  expect_line({"tokenize", "--model", "hf::org/words", "--text", "x"}, 75,
              "the download was stopped; run it again to go on; what was fetched is kept.", options);
}

}  // namespace
}  // namespace tern::e2e
