// A run that resumes goes on with the steps that the first one would have taken, or says what is another.
#include "train/fingerprint.h"

#include <fstream>
#include <functional>

#include "base/strings.h"
#include "io/atomic_dir.h"
#include "io/json.h"
#include "tiny_run.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMend = "; give the same, or start a new run from its weights with --resume_only_model.";

class Resuming : public ::testing::Test {
 protected:
  Resuming() {
    TinyRun first(scratch_.path());
    first.options.data_settings = {{"template", "xxh3_64 1"}, {"max_length", "100"}};
    (void)first.train();
  }
  // What a run that goes on from step 2 ends with where `change` was made to it: an Error's line, or nothing.
  std::string resumed(const std::function<void(TinyRun&)>& change, ErrorKind kind = ErrorKind::usage) {
    TinyRun rest(scratch_.path(), checkpoint_);
    rest.options.data_settings = {{"template", "xxh3_64 1"}, {"max_length", "100"}};
    change(rest);
    try {
      (void)rest.train();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().kind, kind);
      EXPECT_TRUE(rest.losses.empty());
      return failure.error().line();
    }
    return {};
  }
  [[nodiscard]] std::string line(const std::string& was, const std::string& is) const {
    return cat("cannot resume from ", checkpoint_.string(), ": its run had ", was, ", and this one has ", is, kMend);
  }

  Scratch scratch_;
  fs::path checkpoint_ = scratch_.path() / "checkpoint-2";
};

TEST_F(Resuming, NamesEachSettingThatIsAnother) {
  EXPECT_EQ(resumed([](TinyRun&) {}), "");
  EXPECT_EQ(resumed([](TinyRun& run) { run.options.seed = 7; }), line("seed 42", "seed 7"));
  EXPECT_EQ(resumed([](TinyRun& run) { run.batches.seed = 7; }), line("data_seed 42", "data_seed 7"));
  EXPECT_EQ(resumed([](TinyRun& run) { run.batches.shuffle = false; }),
            line("dataset_shuffle true", "dataset_shuffle false"));
  EXPECT_EQ(resumed([](TinyRun& run) { run.batches.group_by_length = true; }),
            line("group_by_length false", "group_by_length true"));
  EXPECT_EQ(resumed([](TinyRun& run) {
              run.batches.packing = true;
              run.batches.packing_length = 64;
            }),
            line("packing_length none", "packing_length 64"));
  const std::string product = "per_device_train_batch_size x gradient_accumulation_steps x ranks ";
  EXPECT_EQ(resumed([](TinyRun& run) { run.batches.accumulation = 4; }), line(product + "4", product + "8"));
  EXPECT_EQ(resumed([](TinyRun& run) { run.options.data_settings[0].second = "xxh3_64 2"; }),
            line("template xxh3_64 1", "template xxh3_64 2"));
  EXPECT_EQ(resumed([](TinyRun& run) {
              run.options.data_settings = {{"template", "xxh3_64 1"}, {"system", "Add."}};
              run.options.seed = 7;
            }),
            line("system none, seed 42, max_length 100", "system Add., seed 7, max_length none"));
  EXPECT_TRUE(resumed([](TinyRun& run) {
                run.options.graph.trainable.pop_back();
              }).starts_with(cat("cannot resume from ", checkpoint_.string(), ": its run had trained parameters ")));
}

// Where a flag is another too, the flag is told, not what came of it.
TEST_F(Resuming, NamesOtherData) {
  const auto other = [](TinyRun& run) {
    data::Sample sample{{1, 2, 3}, {0, 1, 1}};
    auto store = std::make_shared<data::MemoryStore>();
    store->add(sample);
    run.dataset.add(store);
  };
  const std::string found = resumed(other, ErrorKind::data);
  EXPECT_TRUE(found.starts_with(cat("--resume_from_checkpoint ", checkpoint_.string(),
                                    ": expected the data of the run that wrote it: 8 samples, xxh3_64 ")))
      << found;
  EXPECT_NE(found.find(", found 9 samples, xxh3_64 "), std::string::npos) << found;
  EXPECT_TRUE(found.ends_with("; give the same data, or start a new run from its weights with --resume_only_model"));
  EXPECT_EQ(resumed([&](TinyRun& run) {
              other(run);
              run.options.seed = 7;
            }),
            line("seed 42", "seed 7"));
}

// A weight of one token, or where one sample ends and the next begins, makes other data.
TEST_F(Resuming, SeesEveryTokenOfTheData) {
  const auto identity = [](const std::vector<data::Sample>& samples) {
    auto store = std::make_shared<data::MemoryStore>();
    for (const auto& sample : samples) store->add(sample);
    data::EncodedDataset dataset;
    dataset.add(store);
    return data::SetSteps::create(dataset, {}).value().identity().back().second;
  };
  const auto plain = identity({{{1, 2}, {0, 1}}, {{3, 4}, {0, 1}}});
  EXPECT_EQ(identity({{{1, 2}, {0, 1}}, {{3, 4}, {0, 1}}}), plain);
  EXPECT_NE(identity({{{1, 2}, {0, 1}}, {{3, 4}, {0, 0.5F}}}), plain);
  EXPECT_NE(identity({{{3, 4}, {0, 1}}, {{1, 2}, {0, 1}}}), plain);
  EXPECT_NE(identity({{{1, 2, 3}, {0, 1, 0}}, {{4}, {1}}}), plain);
}

TEST_F(Resuming, LetsChangeWhatAStepDoesWithALine) {
  const std::string before = read_train_state(checkpoint_).value().fingerprint.changeable.at(0).second;
  EXPECT_EQ(before, "2");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(resumed([](TinyRun& run) {
              run.options.learning_rate = 1e-3;
              run.options.max_steps = 3;
              run.batches.per_device_batch_size = 4;
              run.batches.accumulation = 1;
            }),
            "");
  const std::string told = ::testing::internal::GetCapturedStderr();
  for (const char* text :
       {"the run goes on with learning_rate 0.001, which was 0.01", "the run goes on with max_steps 3, which was 6",
        "the run goes on with per_device_train_batch_size 4, which was 2"}) {
    EXPECT_NE(told.find(text), std::string::npos) << told;
  }
  EXPECT_EQ(told.find("adam"), std::string::npos) << told;
}

TEST_F(Resuming, GoesOnFromACheckpointThatDoesNotTell) {
  auto target = io::AtomicDir::begin(checkpoint_, io::AtomicDir::Existing::replace).value();
  for (const auto& entry : fs::directory_iterator(checkpoint_)) {
    if (entry.path().filename() != "manifest.json") fs::copy(entry.path(), target.path() / entry.path().filename());
  }
  auto state = io::read_json_file(checkpoint_ / "trainer_state.json").value();
  state.erase("fingerprint");
  state.erase("run_id");
  std::ofstream(target.path() / "trainer_state.json") << state.dump();
  target.commit().value();
  for (const int later : {4, 6}) fs::remove_all(scratch_.path() / cat("checkpoint-", later));  // of another run, then
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(resumed([](TinyRun& run) { run.options.seed = 7; }), "");
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(checkpoint_.string() + " doesn't say what it was trained on, so nothing is compared"),
            std::string::npos)
      << told;
}

TEST(Fingerprint, IsAskedForByName) {
  const Fingerprint was{{{"a", "1"}, {"b", ""}}, {{"c", "1"}}};
  EXPECT_TRUE(require_same("x", was, was).ok());
  EXPECT_TRUE(require_same("x", was, {{{"b", ""}, {"a", "1"}}, {{"c", "2"}}}).ok()) << "in any order";
  EXPECT_EQ(changes(was, {{}, {{"c", "2"}}}), (std::vector<std::string>{"the run goes on with c 2, which was 1"}));
  EXPECT_TRUE(changes(was, was).empty());
}

}  // namespace
}  // namespace tern::train
