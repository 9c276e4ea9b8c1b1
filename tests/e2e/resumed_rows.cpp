// tern infer over the rows of a file, killed again and again: the result file is in the end what a run writes that
// nobody stopped.
#include <chrono>
#include <random>

#include "failing.h"

namespace tern::e2e {
namespace {

using Clock = std::chrono::steady_clock;

class ResumedRows : public Failing {
 protected:
  ResumedRows() { many_ = scratch_.write("many.jsonl", sums(40) + "{\"query\": \"" + std::string(600, 'x') + "\"}\n"); }

  [[nodiscard]] std::vector<std::string> infer(const std::string& results, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "infer",         "--model", model(),    "--val_dataset", many_,           "--max_new_tokens",    "40",
        "--temperature", "1",       "--metric", "rouge",         "--result_path", path(results).string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] static std::string text_of(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }
  [[nodiscard]] static std::string metric_of(const std::string& err) {
    const auto at = err.find("rouge-1: ");
    return err.substr(at, err.find('\n', at) - at);
  }
  // A run that is killed once three rows are there.
  void stop_after_three() const {
    Options options = options_;
    options.signal_when = [this] {
      const std::string text = text_of(path("part"));
      return std::count(text.begin(), text.end(), '\n') >= 3;
    };
    ASSERT_EQ(run(infer("part", {}), options).status, 128 + SIGKILL);
    ASSERT_TRUE(fs::exists(path("part.unfinished")));
  }

  std::string many_;
};

TEST_F(ResumedRows, KilledAtAnyMomentLoseAndDoubleNothing) {
  const auto whole = run(infer("whole", {}), options_);
  ASSERT_EQ(whole.status, 0) << whole.err;
  // How long a run takes that has its choices of kernels.
  const auto begin = Clock::now();
  ASSERT_EQ(run(infer("timed", {}), options_).status, 0);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  EXPECT_FALSE(fs::exists(path("whole.unfinished")));
  // What an earlier run wrote into the same file stays as it is.
  const std::string before = "{\"an\": \"earlier row\"}\n";
  std::ofstream(path("part")) << before;
  std::mt19937 random(5);
  std::uniform_int_distribution<long> moment(took / 10, took);
  int kills = 0;
  for (int start = 0; start < 60; ++start) {
    Options options = options_;
    const auto started = Clock::now();
    const auto until = std::chrono::microseconds(moment(random));
    options.signal_when = [&] {
      if (start == 0) return text_of(path("part")).size() > before.size();  // one at least, however fast the others are
      return start < 50 && Clock::now() - started > until;
    };
    // How many are answered at once may change from one start to the next.
    const auto outcome = run(infer("part", {"--max_batch_size", start % 2 == 0 ? "1" : "4"}), options);
    const std::string text = text_of(path("part"));
    const std::string rows = text.substr(0, text.rfind('\n') + 1);
    ASSERT_EQ((before + text_of(path("whole"))).rfind(rows, 0), 0U) << "rows in order, none lost or doubled: " << rows;
    if (outcome.status == 128 + SIGKILL) {
      ++kills;
      continue;
    }
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(metric_of(outcome.err), metric_of(whole.err)) << "over all rows";
    EXPECT_NE(outcome.err.find("1 of 41 rows have no answer"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(path("part.unfinished")));
    break;
  }
  EXPECT_EQ(text_of(path("part")), before + text_of(path("whole")));
  EXPECT_GT(kills, 0);
}

TEST_F(ResumedRows, AHalfWrittenRowIsAnsweredAgain) {
  ASSERT_EQ(run(infer("whole", {}), options_).status, 0);
  stop_after_three();
  const std::string text = text_of(path("part"));
  std::ofstream(path("part")) << text.substr(0, text.rfind('\n') - 30);
  ASSERT_EQ(run(infer("part", {}), options_).status, 0);
  EXPECT_EQ(text_of(path("part")), text_of(path("whole")));
}

// Ended, the same command answers all rows again, as ms-swift has it.
TEST_F(ResumedRows, ARunThatEndedIsNotGoneOnWith) {
  ASSERT_EQ(run(infer("whole", {}), options_).status, 0);
  const std::string once = text_of(path("whole"));
  ASSERT_EQ(run(infer("whole", {}), options_).status, 0);
  EXPECT_EQ(text_of(path("whole")), once + once);
}

TEST_F(ResumedRows, OtherFlagsRowsAndResultsAreRefused) {
  stop_after_three();
  const std::string part = path("part").string();
  expect_line(infer("part", {"--seed", "9"}), 2,
              "the run that was stopped while it wrote " + part +
                  " had --seed 42, not 9; give it again to go on, or "
                  "remove " +
                  part + ".unfinished to answer all rows anew behind these.");
  const std::string rows = text_of(many_);
  scratch_.write("many.jsonl", sums(1) + rows);
  expect_line(infer("part", {}), 3,
              part + ": answer 2: expected the answer to " + many_ +
                  ":2, found that to another question; answer the "
                  "rows as they were, or remove " +
                  part + ".unfinished to answer all of them anew");
  scratch_.write("many.jsonl", sums(1));
  expect_line(infer("part", {}), 3,
              part +
                  ": answer 2: expected answers to the 1 rows of --val_dataset, found one more; answer the rows as "
                  "they were, or remove " +
                  part + ".unfinished to answer all of them anew");
  scratch_.write("many.jsonl", rows);
  std::ofstream(part) << "{\"response\": 1, \"messages\": []}\n";
  expect_line(infer("part", {}), 3,
              part +
                  ": answer 1: field \"response\": expected a string, found 1; write to another file, or remove the "
                  "mark to answer all rows anew behind these");
  std::ofstream(part) << "no JSON\n";
  expect(infer("part", {}), 3, {part + ": answer 1:1:"});
  scratch_.write("part.unfinished", "{\"begin\": 1000, \"told\": {}}");
  expect_line(infer("part", {}), 3,
              part + ": expected at least the 1000 bytes that it had when the run began, found 8 bytes; remove " +
                  part + ".unfinished to answer all rows anew behind these");
  scratch_.write("part.unfinished", "{}");
  expect(infer("part", {}), 3, {part + ".unfinished: expected a field \"begin\"", "remove it to answer all rows anew"});
  // A run that wrote nothing binds nobody.
  scratch_.write("part.unfinished", "{\"begin\": 8, \"told\": {\"seed\": 7}}");
  EXPECT_EQ(run(infer("part", {"--seed", "9"}), options_).status, 0);
  EXPECT_FALSE(fs::exists(part + ".unfinished"));
  EXPECT_EQ(text_of(part).substr(0, 8), "no JSON\n");
}

}  // namespace
}  // namespace tern::e2e
