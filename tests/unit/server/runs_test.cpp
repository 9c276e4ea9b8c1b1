// Runs as they lie in a folder, and those that are started.
#include "server/runs/runs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/status.h"
#include "server/runs/run_folder.h"
#include "server/runs/run_record.h"
#include "server/runs/run_samples.h"
#include "tests/support/temp_dir.h"

namespace tern::server {
namespace {

using io::Json;

constexpr const char* kRow1 = R"({"loss":2.0,"learning_rate":0.001,"global_step/max_steps":"1/2","elapsed_time":1.0})";
constexpr const char* kRow2 = R"({"loss":1.5,"eval_loss":3.0,"global_step/max_steps":"2/2","elapsed_time":2.0})";
constexpr const char* kLastRow =
    R"({"last_model_checkpoint":"/a/checkpoint-2","best_model_checkpoint":"/a/checkpoint-1",)"
    R"("global_step/max_steps":"2/2","elapsed_time":2.5})";

std::string lines(std::initializer_list<const char*> rows) {
  std::string text;
  for (const char* row : rows) text += std::string(row) + "\n";
  return text;
}

class RunFolders : public ::testing::Test {
 protected:
  Json run(const std::string& id) const { return summary_of(dir_.path(), id); }
  test::TempDir dir_;
};

TEST_F(RunFolders, AreFoundWhereTrainingWritesThem) {
  dir_.write("output/m/v0-a/logging.jsonl", "");
  dir_.write("output/m/v0-a/checkpoint-1/logging.jsonl", "");  // of the run itself
  dir_.write("output/m/v1-b/web-ui.json", "{}");
  dir_.write("output/flat/args.json", "{}");
  dir_.write("output/flat/.lock", "");
  dir_.write("output/model/args.json", "{}");  // a merged model has one, too
  dir_.write("output/.hidden/logging.jsonl", "");
  dir_.write("elsewhere/logging.jsonl", "");
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", dir_ / "output/link");
  std::vector<std::string> found = find_runs(dir_ / "output");
  std::ranges::sort(found);
  EXPECT_EQ(found, (std::vector<std::string>{"flat", "m/v0-a", "m/v1-b"}));
}

TEST_F(RunFolders, PathsStayWithin) {
  dir_.write("output/m/v0/logging.jsonl", "");
  dir_.write("output/m/logging.txt", "");
  dir_.write("elsewhere/logging.jsonl", "");
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", dir_ / "output/link");
  EXPECT_EQ(run_folder(dir_ / "output", "m/v0"), std::filesystem::weakly_canonical(dir_ / "output/m/v0"));
  for (const std::string& id : {std::string(""), std::string("."), std::string(".."), std::string("../elsewhere"),
                                std::string("m/../../elsewhere"), std::string("link"), (dir_ / "elsewhere").string(),
                                std::string("m"), std::string("m/v0\0/x", 7), std::string("/etc")}) {
    EXPECT_THROW((void)run_folder(dir_ / "output", id), Failure) << id;
  }
}

TEST_F(RunFolders, AStateForEachEnd) {
  dir_.write("ended/logging.jsonl", lines({kRow1, kRow2, kLastRow}));
  EXPECT_EQ(run("ended")["state"], "ended");
  EXPECT_EQ(run("ended")["best"], "checkpoint-1");
  EXPECT_EQ(run("ended")["loss"], 1.5);
  EXPECT_EQ(run("ended")["total_steps"], 2);
  dir_.write("killed/logging.jsonl", lines({kRow1}));
  EXPECT_EQ(run("killed")["state"], "failed");
  EXPECT_NE(run("killed")["why"].text().find("was killed"), std::string::npos);
  dir_.write("saved/logging.jsonl", lines({kRow1}));
  dir_.write("saved/checkpoint-1/x", "");
  EXPECT_EQ(run("saved")["state"], "stopped");
  dir_.write("behind/logging.jsonl", lines({kRow1, kRow2}));
  dir_.write("behind/checkpoint-1/x", "");
  EXPECT_EQ(run("behind")["state"], "failed");
  // A run that goes on from a checkpoint has more after its last row, and no end yet.
  dir_.write("resumed/logging.jsonl", lines({kRow1, kLastRow, kRow2}));
  EXPECT_EQ(run("resumed")["state"], "failed");
  dir_.write("early/logging.jsonl", lines({R"({"last_model_checkpoint":null,"global_step/max_steps":"1/9"})"}));
  EXPECT_EQ(run("early")["state"], "stopped");
  dir_.write("told/web-ui.log", "loading\ntern: error: no dataset; give one.\n");
  dir_.write("told/web-ui.json", R"({"pid": 0, "command": "tern sft"})");
  EXPECT_EQ(run("told")["why"], "tern: error: no dataset; give one.");
  dir_.write("signal/web-ui.json", R"({"pid": 0, "exit_status": 139})");
  EXPECT_EQ(run("signal")["why"], "it ended with exit status 139");
}

// Broken if a run that nobody here started looked dead, or if looking took its lock from it.
TEST_F(RunFolders, OneThatHoldsItsLockIsGoingOn) {
  dir_.write("mine/logging.jsonl", lines({kRow1}));
  const int fd = ::open((dir_ / "mine/.lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(run("mine")["state"], "running");
  EXPECT_EQ(run("mine")["pid"], static_cast<std::int64_t>(::getpid()));
  ::close(fd);
  EXPECT_EQ(run("mine")["state"], "failed");
}

TEST_F(RunFolders, ALogIsReadFromWhereItWasLeft) {
  const std::string file = dir_.write("log", "one\ntwo\nthr");
  const FilePart first = read_part(file, 0, 0, 1000, true);
  EXPECT_EQ(first.text, "one\ntwo\n");  // a line that is being written isn't read
  std::ofstream(file, std::ios::app) << "ee\n";
  const FilePart second = read_part(file, first.file, first.offset, 1000, true);
  EXPECT_EQ(second.text, "three\n");
  EXPECT_FALSE(second.begun_again);
  EXPECT_EQ(read_part(file, second.file, second.offset, 1000, true).text, "");
  EXPECT_EQ(read_part(file, 0, 0, 6, true).text, "one\n");  // what is read at once ends with a line
  EXPECT_EQ(read_part(file, 0, 4, 2, true).text, "tw");     // but for a line that is too long
  // A run that goes on from a checkpoint writes its log again.
  std::filesystem::rename(dir_.write("other", "new\nlines\nand\nmore\n"), file);
  const FilePart again = read_part(file, second.file, second.offset, 1000, true);
  EXPECT_TRUE(again.begun_again);
  EXPECT_EQ(again.text, "new\nlines\nand\nmore\n");
  std::filesystem::resize_file(file, 4);
  EXPECT_TRUE(read_part(file, again.file, again.offset, 1000, true).begun_again);
  std::filesystem::remove(file);
  EXPECT_TRUE(read_part(file, again.file, again.offset, 1000, true).begun_again);
}

TEST_F(RunFolders, SamplesAreRowsBesideTheLog) {
  dir_.write("run/logging.jsonl", lines({kRow1}));
  dir_.write("run/val_dataset.jsonl", R"({"query": "a"})"
                                      "\nnothing\n");
  std::string many;
  for (int i = 0; i < 30; ++i) many += R"({"n": )" + std::to_string(i) + "}\n";
  dir_.write("run/checkpoint-1/infer_result/a.jsonl", many);
  dir_.write("run/completions.jsonl", many);
  const Json found = samples_of(dir_ / "run");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0]["name"], "checkpoint-1/infer_result/a.jsonl");
  EXPECT_EQ(found[0]["rows"].size(), 20U);
  EXPECT_EQ(found[0]["rows"][0]["n"], 0);
  EXPECT_TRUE(found[0]["more"].get<bool>());
  EXPECT_EQ(found[1]["rows"][0]["n"], 29);  // what came last comes first
  EXPECT_EQ(found[1]["rows"].size(), 20U);
  EXPECT_EQ(found[2]["rows"].size(), 1U);
  EXPECT_FALSE(found[2]["more"].get<bool>());
}

class StartedRuns : public ::testing::Test {
 protected:
  std::string start(const std::string& script) {
    const std::string folder = "m/v" + std::to_string(++count_);
    std::filesystem::create_directories(dir_ / folder);
    return runs_.start({{"/bin/sh", "-c", script}, "sh -c script", dir_ / folder},
                       {{"model", {"a"}}, {"dataset", {"b", "c"}}});
  }
  Json run(const std::string& id) {
    const Json list = runs_.list();
    for (const Json& one : list["runs"]) {
      if (one["id"] == id) return one;
    }
    return {};
  }
  bool becomes(const std::string& id, const std::string& state) {
    for (int i = 0; i < 1000; ++i) {
      if (run(id)["state"] == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool prints(const std::string& id, const std::string& text) {
    for (int i = 0; i < 1000; ++i) {
      if (runs_.output(id, 0)["text"].text().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  int count_ = 0;
  test::TempDir dir_;
  Runs runs_{dir_.path()};
};

TEST_F(StartedRuns, SaysWhatAProcessPrintedAndHowItEnded) {
  const std::string id = start("echo to out; echo to err >&2; read line; echo \"read $?\"; exit 7");
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(runs_.output(id, 0)["text"], "to out\nto err\nread 1\n");
  EXPECT_EQ(run(id)["why"], "it ended with exit status 7");
  EXPECT_EQ(runs_.arguments(id), R"({"model":"a","dataset":["b","c"]})");
  EXPECT_TRUE(runs_.going_on().empty());
  EXPECT_EQ(Runs(dir_.path()).list()["runs"][0]["why"], "it ended with exit status 7");  // of a later server
}

// Broken if a run got no SIGINT, or a second one, which would end it without a checkpoint.
TEST_F(StartedRuns, StopsOnceWithSigint) {
  const std::string id = start("trap 'echo asked' INT; echo ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(prints(id, "ready"));
  EXPECT_EQ(run(id)["state"], "running");
  ASSERT_EQ(runs_.going_on().size(), 1U);
  runs_.stop(id, false);
  ASSERT_TRUE(prints(id, "asked"));
  runs_.stop(id, false);
  EXPECT_TRUE(run(id)["stopping"].get<bool>());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string text = runs_.output(id, 0)["text"].text();
  EXPECT_EQ(text.find("asked"), text.rfind("asked"));
  runs_.stop(id, true);
  EXPECT_TRUE(becomes(id, "stopped"));
  EXPECT_THROW(runs_.stop(id, false), Failure);  // it isn't going on
}

// Broken if runs died with the server's terminal, or held its sockets open.
TEST_F(StartedRuns, AreInASessionOfTheirOwnWithoutOthersFiles) {
  const int open_file = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as sockets of libraries are
  const std::string id = start("ps -o sid= -p $$; ls /proc/$$/fd | tr '\\n' ' '; echo; echo $$; echo done");
  ASSERT_TRUE(prints(id, "done"));
  ::close(open_file);
  std::istringstream text(runs_.output(id, 0)["text"].text());
  std::string session, files, process;
  std::getline(text, session);
  std::getline(text, files);
  std::getline(text, process);
  EXPECT_EQ(std::stol(session), std::stol(process));
  EXPECT_EQ(files, "0 1 2 ");
}

TEST_F(StartedRuns, StopsOnlyWhatWasStartedHere) {
  dir_.write("foreign/logging.jsonl", "");
  EXPECT_THROW(runs_.stop("foreign", false), Failure);
  EXPECT_THROW(runs_.stop("nowhere", false), Failure);
  // The number of a process that has ended may be another's: here it's this test's own.
  std::filesystem::create_directories(dir_ / "old");
  ASSERT_TRUE(write_record(dir_ / "old", {"tern sft", Json(), {::getpid(), 1}, false, std::nullopt}).ok());
  EXPECT_EQ(run("old")["state"], "failed");
  EXPECT_THROW(runs_.stop("old", true), Failure);
}

// A list is asked for each second: what was found of a run holds until its files change.
TEST_F(StartedRuns, AListKnowsWhatHasChanged) {
  dir_.write("m/v0/logging.jsonl", lines({kRow1}));
  EXPECT_EQ(run("m/v0")["state"], "failed");
  EXPECT_EQ(run("m/v0")["step"], 1);
  std::ofstream(dir_ / "m/v0/logging.jsonl", std::ios::app) << lines({kRow2});
  EXPECT_EQ(run("m/v0")["step"], 2);
  dir_.write("m/v0/checkpoint-2/x", "");
  EXPECT_EQ(run("m/v0")["state"], "stopped");
  const int fd = ::open((dir_ / "m/v0/.lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(run("m/v0")["state"], "running");
  ::close(fd);
  EXPECT_EQ(run("m/v0")["state"], "stopped");
}

TEST_F(StartedRuns, SaysThatAProgramIsNotThere) {
  std::filesystem::create_directories(dir_ / "m");
  EXPECT_THROW((void)runs_.start({{"/nowhere/tern"}, "tern", dir_ / "m"}, {}), Failure);
}

TEST_F(StartedRuns, AnotherServerKnowsThem) {
  const std::string id = start("trap 'exit 3' INT; echo ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(prints(id, "ready"));
  Runs later(dir_.path());
  EXPECT_EQ(later.list()["runs"][0]["state"], "running");
  EXPECT_TRUE(later.going_on().empty());  // it's the first one's child
  later.stop(id, false);
  EXPECT_TRUE(becomes(id, "stopped"));
}

}  // namespace
}  // namespace tern::server
