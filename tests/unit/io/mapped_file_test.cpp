#include "io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <numeric>

#include "tests/support/temp_dir.h"

namespace tern::io {
namespace {

TEST(MappedFile, MapsAndHints) {
  test::TempDir dir;
  const auto file = MappedFile::open(dir.write("a", "hello")).value();
  EXPECT_EQ(file->bytes().size(), 5U);
  EXPECT_EQ(static_cast<char>(file->bytes()[4]), 'o');
  file->will_need(0, ~std::size_t{0});
  file->done_with(3, 1000);
  file->will_need(std::span<const std::byte>());
  EXPECT_TRUE(file->intact().ok());
  EXPECT_EQ(MappedFile::open(dir.write("empty", "")).value()->bytes().size(), 0U);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  test::TempDir dir;
  EXPECT_NE(MappedFile::open(dir / "absent").error().line().find("no such file"), std::string::npos);
  EXPECT_NE(MappedFile::open(dir.path()).error().line().find("a directory"), std::string::npos);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_NE(MappedFile::open(dir / "fifo").error().line().find("special"), std::string::npos);
}

// Broken if reading a file that shrank under its mapping kills the process, or goes unnoticed.
TEST(MappedFile, SurvivesAFileThatShrinks) {
  test::TempDir dir;
  const auto path = dir.write("a", std::string(1 << 16, 'x'));
  const auto file = MappedFile::open(path).value();
  std::filesystem::resize_file(path, 5000);
  EXPECT_FALSE(file->intact().ok());
  const auto count = [](std::byte b) { return b == std::byte{'x'}; };
  EXPECT_EQ(std::count_if(file->bytes().begin(), file->bytes().end(), count), 5000);
  std::filesystem::resize_file(path, 1 << 16);  // back to its size, but what was read was not the file
  const auto status = file->intact();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().line().find("unreadable page"), std::string::npos) << status.error().line();
  // A mapping opened later in the same slot starts sound.
  EXPECT_TRUE(MappedFile::open(dir.write("b", "abc")).value()->intact().ok());
}

// Broken if the file past the last slot is mapped without a guard against its shrinking.
TEST(MappedFile, RefusesMoreFilesThanItCanGuard) {
  rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit more = {std::min<rlim_t>(old.rlim_max, 8192), old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &more), 0);
  test::TempDir dir;
  const auto path = dir.write("a", "x");
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::string line;
  while (line.empty() && files.size() < 5000) {
    auto file = MappedFile::open(path);
    if (file.ok()) {
      files.push_back(*std::move(file));
    } else {
      line = dir.line(file.error());
    }
  }
  EXPECT_EQ(line, "cannot map DIR/a: 4096 files are mapped already; use fewer, larger shards.");
  files.pop_back();
  EXPECT_TRUE(MappedFile::open(path).ok());
  files.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST(MappedFileDeathTest, LeavesOtherBusErrorsAlone) {
  test::TempDir dir;
  (void)MappedFile::open(dir.write("a", "x")).value();
  EXPECT_EXIT(std::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
}

TEST(ReadTextFile, IsBounded) {
  test::TempDir dir;
  const auto path = dir.write("a", "12345");
  EXPECT_EQ(read_text_file(path).value(), "12345");
  EXPECT_FALSE(read_text_file(path, 4).ok());
  EXPECT_FALSE(read_text_file(dir.path()).ok());
}

}  // namespace
}  // namespace tern::io
