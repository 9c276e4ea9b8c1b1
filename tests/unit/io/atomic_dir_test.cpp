#include "io/atomic_dir.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

#include "io/file_writer.h"
#include "tests/support/temp_dir.h"

namespace tern::io {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(AtomicDir, AppearsWholeWithASoundManifest) {
  test::TempDir dir;
  auto made = AtomicDir::begin(dir / "deep/out", AtomicDir::Existing::refuse);
  ASSERT_TRUE(made.ok()) << made.error().line();
  put(made->path() / "a.txt", "hello");
  fs::create_directory(made->path() / "runs");
  put(made->path() / "runs/b", "");
  EXPECT_FALSE(fs::exists(dir / "deep/out"));
  const auto status = made->commit();
  ASSERT_TRUE(status.ok()) << status.error().line();
  EXPECT_EQ(dir.read("deep/out/a.txt"), "hello");
  EXPECT_TRUE(verify_manifest(dir / "deep/out").ok());
  // xxh3_64 of "hello" and of nothing, from xxhsum.
  const std::string manifest = dir.read("deep/out/manifest.json");
  EXPECT_NE(manifest.find("9555e8555c62dcfd"), std::string::npos) << manifest;
  EXPECT_NE(manifest.find("2d06800538d394c2"), std::string::npos) << manifest;
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "deep"), fs::directory_iterator()), 1);
}

TEST(AtomicDir, LeavesNothingWhenDropped) {
  test::TempDir dir;
  { put(AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse).value().path() / "a", "x"); }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(AtomicDir, ReplacesOrRefusesAnExistingTarget) {
  test::TempDir dir;
  dir.write("out/old", "1");
  const auto refused = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  auto made = AtomicDir::begin(dir / "out/", AtomicDir::Existing::replace).value();
  put(made.path() / "new", "2");
  ASSERT_TRUE(made.commit().ok());
  EXPECT_FALSE(fs::exists(dir / "out/old"));
  EXPECT_EQ(dir.read("out/new"), "2");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);

  // A target that came into being meanwhile is not overwritten.
  auto late = AtomicDir::begin(dir / "late", AtomicDir::Existing::refuse).value();
  dir.write("late/theirs", "3");
  EXPECT_FALSE(late.commit().ok());
  EXPECT_EQ(dir.read("late/theirs"), "3");
}

TEST(VerifyManifest, SeesEveryDamage) {
  test::TempDir dir;
  auto made = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse).value();
  put(made.path() / "a", "hello");
  ASSERT_TRUE(made.commit().ok());
  put(dir / "out/a", "hellp");
  EXPECT_TRUE(verify_manifest(dir / "out", Verify::sizes).ok());
  EXPECT_NE(verify_manifest(dir / "out").error().line().find("xxh3_64"), std::string::npos);
  put(dir / "out/a", "hell");
  EXPECT_FALSE(verify_manifest(dir / "out", Verify::sizes).ok());
  fs::remove(dir / "out/a");
  EXPECT_FALSE(verify_manifest(dir / "out").ok());
  for (const char* text : {"", "[]", "{}", R"({"files":{"../x":{"size":1,"xxh3_64":"0"}}})", R"({"files":{"a":1}})"}) {
    dir.write("out/manifest.json", text);
    EXPECT_FALSE(verify_manifest(dir / "out").ok()) << text;
  }
}

// Broken if a run that was killed leaves its directory for ever, or if a live run's directory is taken away.
TEST(AtomicDir, StaleDirectoriesGoAndLiveOnesStay) {
  test::TempDir dir;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto made = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(remove_stale_directories(dir.path()).empty());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(remove_stale_directories(dir.path()), std::vector<std::string>{".out.tmp-" + std::to_string(child)});
  EXPECT_TRUE(fs::is_empty(dir.path()));
  fs::create_directory(dir / "out.tmp-x");  // not ours
  fs::create_directory(dir / ".tmp-1");
  EXPECT_TRUE(remove_stale_directories(dir.path()).empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

// Broken if `checkpoint-*` takes what is still being written for a checkpoint.
TEST(AtomicDir, WritesUnderAHiddenName) {
  test::TempDir dir;
  const auto made = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse).value();
  EXPECT_EQ(made.path().parent_path(), dir.path());
  EXPECT_TRUE(made.path().filename().string().starts_with(".out.tmp-")) << made.path();
}

// Broken if a directory that is being removed can be met half removed under its own name.
TEST(RemoveDirectory, KilledItLeavesTheWholeOrNothing) {
  test::TempDir dir;
  constexpr int kFiles = 4000;
  fs::create_directory(dir / "out");
  for (int i = 0; i < kFiles; ++i) put(dir / "out" / std::to_string(i), "");
  const pid_t child = ::fork();
  if (child == 0) {
    (void)remove_directory(dir / "out").ok();
    ::_exit(0);
  }
  const auto begun = [&] {
    int files = 0;
    std::error_code gone;
    for (auto it = fs::directory_iterator(dir / "out", gone); !gone && it != fs::directory_iterator(); ++files)
      it.increment(gone);
    return gone || files < kFiles;
  };
  while (!begun()) {
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::exists(dir / "out")) << "partly removed";
  (void)remove_stale_directories(dir.path());
  EXPECT_TRUE(fs::is_empty(dir.path()));
  EXPECT_FALSE(remove_directory(dir / "absent").ok());
}

// Broken if a crash while a file is written anew leaves a part of it: whoever opened the old one reads it whole.
TEST(ReplaceFile, LeavesTheOldTextOrTheNew) {
  test::TempDir dir;
  dir.write("log", "old text");
  std::ifstream reader(dir / "log");
  ASSERT_TRUE(replace_file(dir / "log", "new").ok());
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "old text");
  EXPECT_EQ(dir.read("log"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
  fs::create_directory(dir / "folder");
  EXPECT_EQ(replace_file(dir / "folder", "text").error().kind, ErrorKind::failed);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2) << "nothing is left";
}

// Broken if each killed run of a command leaves a directory or file as large as its result.
TEST(AtomicDir, TheNextWriterOfATargetRemovesWhatAKilledOneLeft) {
  test::TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string gone = ".tmp-" + std::to_string(child);
  const std::string live = ".tmp-" + std::to_string(::getppid());
  for (const std::string& name : {".out" + gone, ".other" + gone, ".out" + live}) fs::create_directory(dir / name);
  auto made = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse).value();
  EXPECT_FALSE(fs::exists(dir / (".out" + gone)));
  EXPECT_TRUE(fs::exists(dir / (".out" + live))) << "of a process that lives";
  EXPECT_TRUE(fs::exists(dir / (".other" + gone))) << "of another target";

  const std::string files[] = {"m.gguf" + gone, "m.gguf" + gone + ".safetensors", "m.gguf" + live, "n.gguf" + gone};
  for (const std::string& name : files) {
    dir.write(name, "x");
    fs::last_write_time(dir / name, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  }
  dir.write("m.gguf.tmp-x", "not ours");
  remove_stale_files(dir / "m.gguf");
  for (const std::string& name : files) EXPECT_EQ(fs::exists(dir / name), name == files[2] || name == files[3]) << name;
  EXPECT_TRUE(fs::exists(dir / "m.gguf.tmp-x"));
  dir.write(files[0], "young");
  remove_stale_files(dir / "m.gguf");
  EXPECT_TRUE(fs::exists(dir / files[0])) << "it may be another host's";
}

// A full disk is one clear line: /dev/full answers every write so.
TEST(AtomicDir, SaysThatTheDiskIsFull) {
  test::TempDir dir;
  auto made = AtomicDir::begin(dir / "out", AtomicDir::Existing::refuse).value();
  fs::create_symlink("/dev/full", made.path() / "manifest.json");
  const auto status = made.commit();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::failed);
  EXPECT_NE(status.error().line().find("no space left on device"), std::string::npos) << status.error().line();
  EXPECT_FALSE(fs::exists(dir / "out"));
}

}  // namespace
}  // namespace tern::io
