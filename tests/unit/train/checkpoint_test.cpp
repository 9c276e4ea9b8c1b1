#include "train/checkpoint.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "base/strings.h"
#include "io/atomic_dir.h"
#include "tiny_run.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

TEST(Checkpoint, AtFaultIsPassedOver) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  (void)run.train();
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-6");
  // One bit of the newest, and the middle one cut short.
  const fs::path weights = scratch.path() / "checkpoint-6" / "adapter_model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-5, std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-5, std::ios::end);
  file.put(byte);
  file.close();
  fs::resize_file(scratch.path() / "checkpoint-4" / "optimizer.safetensors", 100);
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-2");
  EXPECT_FALSE(read_train_state(scratch.path() / "checkpoint-6").ok());
  EXPECT_FALSE(read_train_state(scratch.path() / "checkpoint-4").ok());
  EXPECT_TRUE(read_train_state(scratch.path() / "checkpoint-2").ok());
}

// Sound by its manifest, and yet not what this program writes.
TEST(Checkpoint, RefusesStateOfAnotherProgram) {
  const Scratch scratch;
  for (const auto& [state, says] :
       {std::pair{"{}", R"(: expected a field "global_step", found none)"},
        {"[1]", ": expected an object, found [1]"},
        {R"({"global_step": "three"})", R"(: field "global_step": expected an integer, found "three")"},
        {R"({"fingerprint": {"fixed": {"seed": 1}, "changeable": {}}})",
         R"(: field "fingerprint.fixed.seed": expected a string, found 1)"}}) {
    const fs::path directory = scratch.path() / "checkpoint-1";
    auto target = io::AtomicDir::begin(directory, io::AtomicDir::Existing::replace).value();
    std::ofstream(target.path() / "trainer_state.json") << state;
    target.commit().value();
    const auto read = read_train_state(directory);
    ASSERT_FALSE(read.ok()) << state;
    EXPECT_EQ(read.error().kind, ErrorKind::data);
    EXPECT_EQ(read.error().line(),
              (directory / "trainer_state.json").string() + says + "; resume from a checkpoint that tern wrote");
  }
}

TEST(Checkpoint, RefusesStateOfOtherParameters) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  (void)run.train();
  const fs::path checkpoint = scratch.path() / "checkpoint-6";
  graph::TensorStore store(cpu_device());
  store.create("adam_m/nobody", make_desc(TERN_F32, {4}));
  const Status missing = read_optimizer(checkpoint, store, {"adam_m/nobody"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::data);
  const std::string known = Optimizer::first_moment(run.options.graph.trainable[0]);
  store.create(known, make_desc(TERN_F32, {3}));
  EXPECT_FALSE(read_optimizer(checkpoint, store, {known}).ok()) << "another shape";
}

// Saves an adapter, but not at the saves whose numbers, from 1, are given.
class FailingSaver : public ModelSaver {
 public:
  FailingSaver(const TinyRun& run, std::set<int> failing)
      : saver_(adapter_saver(run.model, run.adapter)), failing_(std::move(failing)) {}
  void save(const fs::path& directory) const override {
    if (failing_.contains(++saves_)) throw Failure(failed_error("the disk is full", "free some space"));
    saver_->save(directory);
  }

 private:
  std::unique_ptr<ModelSaver> saver_;
  std::set<int> failing_;
  mutable int saves_ = 0;
};

TEST(Trainer, TheBestIsOneThatWasSaved) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.validation = tiny_samples();
  run.options.eval_strategy = When::steps;
  run.options.eval_steps = 2;
  std::vector<double> held_out;
  run.hooks.on_log = [&](const LogRow& row) {
    if (row.eval_loss) held_out.push_back(*row.eval_loss);
  };
  const TrainResult result = run.train(FailingSaver(run, {3}));
  ASSERT_EQ(held_out.size(), 3U);
  ASSERT_LT(held_out[2], held_out[1]);
  ASSERT_LT(held_out[1], held_out[0]);
  EXPECT_EQ(result.best_checkpoint, (scratch.path() / "checkpoint-4").string());
  EXPECT_EQ(result.best_metric, held_out[1]);
  EXPECT_EQ(result.last_checkpoint, result.best_checkpoint);
  EXPECT_TRUE(result.save_failed);
  const TrainState state = read_train_state(scratch.path() / "checkpoint-4").value();
  EXPECT_EQ(state.best_checkpoint, result.best_checkpoint);
  EXPECT_EQ(state.best_metric, held_out[1]);
}

// Nothing is learned: the first save is the best, and two later ones are no better.
TEST(Trainer, StopsAfterSavesWithoutGain) {
  const Scratch scratch;
  const auto train = [&](const fs::path& resume_from) {
    TinyRun run(scratch.path(), resume_from);
    run.validation = tiny_samples();
    run.options.eval_strategy = When::steps;
    run.options.eval_steps = run.options.save_steps = 1;
    run.options.learning_rate = 0;
    run.options.early_stop_interval = 2;
    return run.train();
  };
  const TrainResult result = train({});
  EXPECT_TRUE(result.stopped_early);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.best_checkpoint, (scratch.path() / "checkpoint-1").string());
  // Resumed with the same patience it's over at once; from a save before, it stops where it did.
  EXPECT_EQ(train(scratch.path() / "checkpoint-3").steps, 3);
  EXPECT_EQ(train(scratch.path() / "checkpoint-2").steps, 3);
}

TEST(Trainer, TheBestIsByTheMetricThatIsAskedFor) {
  for (const bool greater : {false, true}) {
    const Scratch scratch;
    TinyRun run(scratch.path());
    run.validation = tiny_samples();
    run.options.eval_strategy = When::steps;
    run.options.eval_steps = 2;
    run.options.learning_rate = 3e-2;
    run.options.best = {Metric::token_accuracy, greater};
    std::vector<double> shares;
    run.hooks.on_log = [&](const LogRow& row) {
      if (row.eval_accuracy) shares.push_back(row.eval_accuracy->share);
    };
    const TrainResult result = run.train();
    ASSERT_EQ(shares.size(), 3U);
    ASSERT_TRUE(result.best_metric);
    EXPECT_EQ(*result.best_metric, greater ? *std::max_element(shares.begin(), shares.end())
                                           : *std::min_element(shares.begin(), shares.end()));
  }
}

TEST(Trainer, LogsAndEvaluatesWhenItIsTold) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.validation = tiny_samples();
  run.options.eval_strategy = When::steps;
  run.options.eval_steps = 1;
  run.options.eval_delay = 4;
  run.options.logging_strategy = When::no;
  std::vector<std::int64_t> rows, held_out;
  run.hooks.on_log = [&](const LogRow& row) { (row.eval_loss ? held_out : rows).push_back(row.step); };
  (void)run.train();
  EXPECT_EQ(rows, std::vector<std::int64_t>{1}) << "logging_first_step";
  EXPECT_EQ(held_out, (std::vector<std::int64_t>{4, 5, 6}));
}

TEST(Trainer, SeesOnlyTheCheckpointsOfItsRun) {
  const Scratch scratch;
  TinyRun first(scratch.path());
  (void)first.train();
  const std::string id = read_train_state(scratch.path() / "checkpoint-2").value().run_id;
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(read_train_state(scratch.path() / "checkpoint-6").value().run_id, id);

  // In the way: refused before anything changes.
  const auto line_of = [](TinyRun& run) {
    try {
      (void)run.train();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().kind, ErrorKind::usage);
      return failure.error().line();
    }
    return std::string("none");
  };
  TinyRun other(scratch.path());
  other.options.max_steps = 2;
  const std::string folder = (scratch.path() / "checkpoint-2").string();
  EXPECT_EQ(line_of(other), cat(folder,
                                " is another run's checkpoint and in the way of this run; choose another --output_dir, "
                                "leave --add_version true, move it away, or give --resume_from_checkpoint ",
                                folder, " to go on from it."));
  EXPECT_TRUE(other.losses.empty());

  // Not in the way: neither told nor deleted.
  other.options.max_steps = 1;
  other.options.save_total_limit = 1;
  const TrainResult result = other.train();
  EXPECT_EQ(fs::path(result.last_checkpoint).filename(), "checkpoint-1");
  EXPECT_EQ(list_checkpoints(scratch.path()).size(), 4U);
  EXPECT_NE(read_train_state(scratch.path() / "checkpoint-1").value().run_id, id);

  // A run that resumes is the same one: its own later checkpoints are replaced, the stranger's stays.
  TinyRun rest(scratch.path(), scratch.path() / "checkpoint-2");
  rest.options.save_total_limit = 1;
  EXPECT_EQ(fs::path(rest.train().last_checkpoint).filename(), "checkpoint-6");
  const auto kept = list_checkpoints(scratch.path());
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].first, 1);
  EXPECT_EQ(read_train_state(kept[1].second).value().run_id, id);

  // What doesn't say whose it is, is a stranger's.
  fs::create_directory(scratch.path() / "checkpoint-7");
  TinyRun last(scratch.path(), scratch.path() / "checkpoint-6");
  last.options.max_steps = 8;
  EXPECT_TRUE(line_of(last).starts_with((scratch.path() / "checkpoint-7").string() + " is another run's checkpoint "));
}

// Steps behind the checkpoint are logged again. Broken if the rows stand there twice, or a failed rewriting loses any.
TEST(Trainer, RewritesItsLogAsAWhole) {
  const Scratch scratch;
  TinyRun first(scratch.path());
  (void)first.train();
  const auto read = [&] {
    std::ifstream in(scratch.path() / "logging.jsonl");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string whole = read();
  const auto rows = std::count(whole.begin(), whole.end(), '\n');
  std::ifstream held(scratch.path() / "logging.jsonl");
  TinyRun rest(scratch.path(), scratch.path() / "checkpoint-2");
  (void)rest.train();
  const std::string again = read();
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'), rows);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(held), {}), whole) << "the old file was written on";
}

TEST(Trainer, TakesItsBestAlongWhereItsDirectoryMoved) {
  const Scratch scratch;
  TinyRun first(scratch.path() / "old");
  fs::create_directories(first.output);
  first.validation = tiny_samples();
  first.options.eval_strategy = When::steps;
  first.options.eval_steps = 2;
  (void)first.train();
  fs::rename(scratch.path() / "old", scratch.path() / "new");
  const auto go_on = [&] {
    TinyRun rest(scratch.path() / "new", scratch.path() / "new/checkpoint-6");
    rest.options.max_steps = 7;
    rest.options.eval_strategy = When::no;
    return rest.train().best_checkpoint;
  };
  EXPECT_EQ(go_on(), (scratch.path() / "new/checkpoint-6").string());
  TinyRun rest(scratch.path() / "new", scratch.path() / "new/checkpoint-6");
  rest.output = rest.options.output_dir = scratch.path() / "elsewhere";
  fs::create_directories(rest.output);
  rest.options.max_steps = 7;
  const TrainResult result = rest.train();
  EXPECT_EQ(result.best_checkpoint, "") << "it isn't there";
  EXPECT_FALSE(result.best_metric);
}

}  // namespace
}  // namespace tern::train
