#include "train/trainer.h"

#include <set>

#include "base/strings.h"
#include "tiny_run.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

TEST(Trainer, ResumesToTheBitFromEachCheckpoint) {
  const Scratch scratch;
  TinyRun whole(scratch.path() / "whole");
  fs::create_directories(whole.output);
  const TrainResult result = whole.train();
  ASSERT_EQ(whole.losses.size(), 6U);
  EXPECT_EQ(fs::path(result.last_checkpoint).filename(), "checkpoint-6");
  for (const int done : {2, 4}) {
    const fs::path folder = scratch.path() / cat("from-", done);
    fs::create_directories(folder);
    TinyRun rest(folder, whole.output / cat("checkpoint-", done));
    (void)rest.train();
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + done, whole.losses.end())) << done;
    EXPECT_EQ(rest.state(), whole.state()) << done;
  }
}

TEST(Trainer, LearnsNothingAtARateOfZero) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.learning_rate = 0;
  run.options.save_strategy = When::no;
  std::map<std::string, std::vector<float>> before;
  for (const auto& name : run.options.graph.trainable) before[name] = download(*run.model.store, name);
  (void)run.train();
  for (const auto& [name, values] : before) EXPECT_EQ(download(*run.model.store, name), values) << name;
}

TEST(Trainer, SavesWhereItIsStopped) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.save_steps = 100;
  run.hooks.should_stop = [&] { return run.losses.size() == 3; };
  const TrainResult result = run.train();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(run.losses.size(), 3U);
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-3");
}

TEST(Trainer, KeepsAsManyCheckpointsAsAsked) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.save_steps = 1;
  run.options.save_total_limit = 2;
  (void)run.train();
  const auto kept = list_checkpoints(scratch.path());
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].first, 5);
  EXPECT_EQ(kept[1].first, 6);
}

TEST(Trainer, EvaluatesWithoutDropoutAndChangesNothingByIt) {
  const Scratch scratch;
  TinyRun plain(scratch.path() / "plain");
  TinyRun watched(scratch.path() / "watched");
  for (TinyRun* run : {&plain, &watched}) {
    fs::create_directories(run->output);
    run->options.save_strategy = When::no;
  }
  watched.validation = tiny_samples();
  watched.options.eval_strategy = When::steps;
  watched.options.eval_steps = 2;
  watched.options.eval_on_start = true;
  std::vector<double> held_out;
  watched.hooks.on_log = [&](const LogRow& row) {
    if (row.eval_loss) held_out.push_back(*row.eval_loss);
  };
  (void)plain.train();
  (void)watched.train();
  EXPECT_EQ(watched.losses, plain.losses);
  ASSERT_EQ(held_out.size(), 4U);
  EXPECT_LT(held_out.back(), held_out.front());  // of the samples that it trains on
}

TEST(DropoutKey, DiffersInEachOfItsParts) {
  std::set<std::int64_t> keys;
  for (std::uint64_t seed : {1, 2}) {
    for (std::uint64_t epoch : {0, 1}) {
      for (std::uint64_t sample = 0; sample < 20; ++sample) {
        for (std::uint64_t position = 0; position < 50; ++position)
          keys.insert(dropout_key(seed, epoch, sample, position));
      }
    }
  }
  EXPECT_EQ(keys.size(), 2U * 2 * 20 * 50);
}

}  // namespace
}  // namespace tern::train
