// If these fail, each process compiles every kernel again, or a damaged or half-written file gives wrong results.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temp_dir.h"
#include "tests/unit/backend_opencl/child.h"

namespace tern::test {
namespace {

namespace fs = std::filesystem;

std::string doubled(const tern_backend& table) { return double_numbers(table, 0); }

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ProgramCache, TheNextProcessTakesWhatWasKept) {
  const TempDir folder;
  EXPECT_EQ(in_child({}, folder.path().string(), doubled), "2 4 6 8");
  const auto files = files_in(folder.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].extension(), ".bin");
  // A file that is read isn't written: a time in the past stays.
  const auto past = fs::last_write_time(files[0]) - std::chrono::hours(1);
  fs::last_write_time(files[0], past);
  EXPECT_EQ(in_child({}, folder.path().string(), doubled), "2 4 6 8");
  EXPECT_EQ(files_in(folder.path()), files);
  EXPECT_EQ(fs::last_write_time(files[0]), past);
}

TEST(ProgramCache, ADamagedFileIsMadeAgain) {
  const TempDir folder;
  EXPECT_EQ(in_child({}, folder.path().string(), doubled), "2 4 6 8");
  const fs::path file = files_in(folder.path()).at(0);
  const std::string whole = content(file);
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  std::string of_another_key = whole;
  of_another_key[8] = static_cast<char>(of_another_key[8] ^ 1);
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), flipped, whole + "x", of_another_key}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(in_child({}, folder.path().string(), doubled), "2 4 6 8");
    EXPECT_NE(content(file), damaged) << damaged.size() << " of " << whole.size() << " bytes";
    EXPECT_EQ(files_in(folder.path()).size(), 1U);
  }
}

TEST(ProgramCache, ProcessesAtOnceDoNotDisturbEachOther) {
  const TempDir folder;
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) children.push_back(begin_child({}, folder.path().string(), doubled));
  for (const Child& child : children) EXPECT_EQ(wait_for(child), "2 4 6 8");
  const auto files = files_in(folder.path());
  ASSERT_EQ(files.size(), 1U);  // nothing unfinished is left
  EXPECT_EQ(files[0].extension(), ".bin");
}

TEST(ProgramCache, AFolderThatCannotBeWrittenIsNoFailure) {
  const TempDir folder;
  std::ofstream(folder.path() / "file") << "no folder";
  EXPECT_EQ(in_child({}, (folder.path() / "file").string(), doubled), "2 4 6 8");
  EXPECT_EQ(in_child({}, "", doubled), "2 4 6 8");
}

}  // namespace
}  // namespace tern::test
