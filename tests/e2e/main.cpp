// e2e FILE...: the tests of these files alone, each by its name without .cpp, of those that --gtest_filter doesn't
// leave out. Without a word, all of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

namespace {

// Of the tests in `files`, which lose what they don't find; in the notation of --gtest_filter.
std::string tests_of(std::set<std::string>& files) {
  const std::set<std::string> wanted = files;
  std::string out;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int suite = 0; suite < all.total_test_suite_count(); ++suite) {
    for (int test = 0; test < all.GetTestSuite(suite)->total_test_count(); ++test) {
      const auto& info = *all.GetTestSuite(suite)->GetTestInfo(test);
      const std::string file = std::filesystem::path(info.file()).stem();
      if (!wanted.contains(file)) continue;
      files.erase(file);
      out.append(info.test_suite_name()).append(".").append(info.name()).append(":");
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::set<std::string> files(argv + 1, argv + argc);
  if (files.empty()) return RUN_ALL_TESTS();
  const std::string tests = tests_of(files);
  for (const auto& file : files) std::fprintf(stderr, "e2e: no test is of a file %s.cpp\n", file.c_str());
  if (!files.empty()) return 2;
  std::string filter = GTEST_FLAG_GET(filter);
  if (filter.starts_with("*")) filter.erase(0, 1);
  // Whoever names tests has them; whoever leaves some out has the rest.
  if (filter.empty() || filter.starts_with("-")) GTEST_FLAG_SET(filter, tests + filter);
  return RUN_ALL_TESTS();
}
