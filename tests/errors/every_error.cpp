// The suite has made every error that the code can make, and each says where, what was expected, what was found and the
// mend. Every test that ran before has added the errors it met to the file TERN_ERROR_SITES (base/status.h); here they
// are compared with the sources.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sites.h"

namespace tern::errors {
namespace {

// A line of unreached.txt: `file: part of the call # why no test reaches it`.
struct Unreached {
  std::string file;
  std::string part;
  unsigned line;
};

std::vector<Unreached> unreached_list() {
  std::vector<Unreached> out;
  std::ifstream in(TERN_SOURCE_DIR "/tests/errors/unreached.txt");
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(": ");
    const auto reason = line.rfind(" # ");
    EXPECT_TRUE(colon != std::string::npos && reason != std::string::npos && colon < reason)
        << "unreached.txt:" << number;
    if (colon == std::string::npos || reason == std::string::npos) continue;
    out.push_back({line.substr(0, colon), line.substr(colon + 2, reason - colon - 2), number});
  }
  return out;
}

// file -> line -> the letters of the parts that every error made there had
std::map<std::string, std::map<unsigned, std::set<char>>> reached_lines(const char* path) {
  std::map<std::string, std::map<unsigned, std::set<char>>> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.rfind(':');
    const auto blank = line.rfind(' ');
    if (colon == std::string::npos || blank == std::string::npos || blank < colon) continue;
    std::string file = line.substr(0, colon);
    while (file.rfind("../", 0) == 0) file.erase(0, 3);
    const std::string source = std::string(TERN_SOURCE_DIR) + "/";
    if (file.rfind(source, 0) == 0) file.erase(0, source.size());
    const auto number = static_cast<unsigned>(std::strtoul(line.c_str() + colon + 1, nullptr, 10));
    const std::set<char> parts(line.begin() + static_cast<std::ptrdiff_t>(blank) + 1, line.end());
    auto& lines = out[file];
    const auto known = lines.find(number);
    if (known == lines.end()) {
      lines[number] = parts;
    } else {
      std::set<char> both;
      for (char c : parts) {
        if (known->second.count(c) != 0) both.insert(c);
      }
      known->second = both;
    }
  }
  return out;
}

TEST(EveryError, IsMadeByATestAndSaysItAll) {
  const char* path = std::getenv("TERN_ERROR_SITES");
  if (path == nullptr) GTEST_SKIP() << "needs the whole suite's record: run script/test";
  const auto reached = reached_lines(path);
  const auto list = unreached_list();
  std::vector<unsigned> uses(list.size());
  const auto sites = error_sites(TERN_SOURCE_DIR);
  EXPECT_GT(sites.size(), 400u);
  unsigned missing = 0;
  for (const auto& site : sites) {
    bool made = false;
    std::set<char> parts;
    if (const auto file = reached.find(site.file); file != reached.end()) {
      for (auto line = file->second.lower_bound(site.first); line != file->second.end() && line->first <= site.last;
           ++line) {
        made = true;
        parts = line->second;
      }
    }
    if (made) {
      if (site.maker == "interrupted_error") parts.insert('e');  // nothing was expected
      for (const auto& [letter, part] :
           {std::pair{'w', "where"}, {'e', "expected"}, {'f', "found"}, {'m', "the mend"}}) {
        EXPECT_TRUE(parts.count(letter) != 0)
            << site.file << ":" << site.first << " does not say " << part << ": " << site.text;
      }
      continue;
    }
    bool excused = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].file == site.file && site.text.find(list[i].part) != std::string::npos) {
        excused = true;
        ++uses[i];
      }
    }
    missing += excused ? 0 : 1;
    EXPECT_TRUE(excused) << site.file << ":" << site.first << ": no test makes this error: " << site.text;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(uses[i], 1u) << "unreached.txt:" << list[i].line << " names " << uses[i]
                           << " unmade errors: " << list[i].part;
  }
  RecordProperty("sites", static_cast<int>(sites.size()));
  std::printf("%zu errors: %zu made by a test, %zu excused, %u not made\n", sites.size(),
              sites.size() - list.size() - missing, list.size(), missing);
}

TEST(Sites, AreCallsOfMakers) {
  const std::string text = R"(
// data_error("in a comment")
struct Problem {
  std::string found;
  Site site = Site::current();
};
void fail(int at, Site site = Site::current()) { throw Failure(data_error("x", "a (b", "c", "d", site)); }
void f() {
  if (a) fail(3);
  throw Problem{"one"};
  return usage_error("a",
                     "data_error(",
                     "c");
}
)";
  auto makers = makers_in(text);
  EXPECT_EQ(makers, (std::vector<std::string>{"Problem", "fail"}));
  makers.insert(makers.end(), {"data_error", "usage_error"});
  const auto sites = error_sites_in("f.cpp", text, makers);
  ASSERT_EQ(sites.size(), 3u);
  EXPECT_EQ(sites[0].text, "fail(3)");
  EXPECT_EQ(sites[1].text, R"(Problem{"one"})");
  EXPECT_EQ(sites[2].first, 11u);
  EXPECT_EQ(sites[2].last, 13u);
}

}  // namespace
}  // namespace tern::errors
