// Which places in the sources make an error, that each says what to do, and how a run's coverage is read. That a test
// makes each of them is proven by script/full.d/coverage.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "coverage.h"

namespace tern::errors {
namespace {

const std::string kSource = TERN_SOURCE_DIR;

std::set<Maker> listed_makers() { return makers_of(read_text(kSource + "/tests/errors/makers.txt")); }

TEST(Sites, AreCallsOfMakers) {
  const std::string text = R"(
// data_error("in a comment")
struct Problem {
  std::string found;
};
[[noreturn]] void fail(int at, const std::string& found) { throw Failure(data_error("x", "a (b", found, "d")); }
Error both(int at) { return at > 0 ? usage_error("a", "b") : usage_error("c", "d"); }
void f() {
  if (a == U' ' || b == 1'000'000) fail(3, "x");
  throw Problem{"one"};
  throw place.wrong("a number");
  return usage_error("a",
                     "data_error(, (", cat(1, "c"));
  const Error error = result.error();
}
)";
  EXPECT_EQ(makers_in("d/f.cpp", text), (std::set<Maker>{{"d/f.cpp", "fail"}, {"d/f.cpp", "both"}}));
  const auto makers = makers_of(
      "# who\nd/f.cpp: fail callers\nd/f.cpp: both itself\nd/g.h: Problem callers\ne/h.h: f callers\nio/p.h: wrong "
      "everywhere\n");
  const auto sites = error_sites_in("d/f.cpp", text, makers);
  std::vector<std::string> texts;
  for (const auto& site : sites) texts.push_back(site.text);
  EXPECT_EQ(texts, (std::vector<std::string>{R"(usage_error("a", "b"))", R"(usage_error("c", "d"))", R"(fail(3, "x"))",
                                             R"(Problem{"one"})", R"(wrong("a number"))",
                                             R"(usage_error("a", "data_error(, (", cat(1, "c")))"}));
  EXPECT_EQ(sites.back().first, 12U);
  EXPECT_EQ(sites.back().last, 13U);
  EXPECT_EQ(sites.back().column, 10U);
  EXPECT_EQ(sites.back().parts, (std::vector<std::string>{R"("a")", R"("data_error(, (")", R"(cat(1, "c"))"}));
  const std::string own = "[[noreturn]] void wrong(int at) { throw Mistake(at); }\nvoid f() { wrong(3); }\n";
  EXPECT_TRUE(error_sites_in("e/own.cpp", own, makers).empty()) << "a function of that name that is another";
  EXPECT_THROW((void)makers_of("d/f.cpp: fail sometimes"), std::runtime_error);
}

// Broken if a function that makes errors for its callers is not told from one that makes its own: its callers would
// not be proven. A struct that is thrown to be made an error elsewhere is listed like a function.
TEST(Sites, EveryMakerIsListed) {
  const auto listed = listed_makers();
  std::map<std::string, std::string> texts;
  for (auto& [file, text] : source_files(kSource)) {
    for (const Maker& maker : makers_in(file, text)) {
      const auto is_it = [&maker, &in = file](const Maker& one) { return one.file == in && one.name == maker.name; };
      EXPECT_TRUE(file.rfind("base/status.", 0) == 0 || std::count_if(listed.begin(), listed.end(), is_it) == 1)
          << "tests/errors/makers.txt does not list once " << file << ": " << maker.name;
    }
    texts[file] = std::move(text);
  }
  for (const Maker& maker : listed) {
    EXPECT_TRUE(defines(texts[maker.file], maker.name)) << "makers.txt: " << maker.file << " has no " << maker.name;
  }
}

TEST(Sites, EachErrorSaysEverything) {
  const auto sites = error_sites(kSource, listed_makers());
  EXPECT_GT(sites.size(), 400U);
  for (const auto& site : sites) {
    if (general_makers().count(site.maker) == 0) continue;
    EXPECT_EQ(site.parts.size(), site.maker == "data_error" ? 4U : 2U)
        << site.file << ":" << site.first << ": " << site.text;
    for (const auto& part : site.parts) {
      EXPECT_TRUE(part != "{}" && part != R"("")" && part != "std::string()" && part != "std::string{}")
          << site.file << ":" << site.first << " leaves a part out: " << site.text;
    }
  }
}

std::string exported(const std::string& segments) {
  return R"({"data":[{"files":[{"filename":"/other/a.cpp","segments":[]},{"filename":"/src/build/../d/a.cpp","segments":[)" +
         segments + R"(]}],"totals":{}}],"type":"llvm.coverage.json.export","version":"2.0.1"})";
}

// if (a) return usage_error(..); ran, and the return in it did not: line 3, columns 10 to 40.
TEST(Coverage, IsThatOfTheRegionThatHoldsThePlace) {
  const auto coverage = read_coverage(
      exported("[1,5,7,true,true,false],[3,9,0,true,true,true],[3,10,0,true,true,false],[3,40,7,true,false,false],"
               "[9,2,0,false,false,false]"),
      "/src");
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_FALSE(executed(coverage, "d/a.cpp", 1, 4)) << "before the function";
  EXPECT_TRUE(executed(coverage, "d/a.cpp", 1, 5));
  EXPECT_TRUE(executed(coverage, "d/a.cpp", 3, 8));
  EXPECT_FALSE(executed(coverage, "d/a.cpp", 3, 17));
  EXPECT_TRUE(executed(coverage, "d/a.cpp", 3, 40));
  EXPECT_TRUE(executed(coverage, "d/a.cpp", 8, 1));
  EXPECT_FALSE(executed(coverage, "d/a.cpp", 9, 2)) << "behind the function";
  EXPECT_FALSE(executed(coverage, "d/b.cpp", 3, 8)) << "a file that no program holds";
  EXPECT_THROW((void)read_coverage("[1]", "/src"), std::runtime_error);
}

TEST(Coverage, NamesWhatNoTestMakesAndExcusesThatAreNotNeeded) {
  const Coverage coverage = {{"d/a.cpp", {{1, 1, true, true}, {5, 1, true, false}}}};
  const std::vector<ErrorSite> sites = {{"d/a.cpp", 2, 2, 3, "usage_error", "made", {}},
                                        {"d/a.cpp", 6, 6, 3, "usage_error", "far away", {}},
                                        {"d/a.cpp", 7, 7, 3, "usage_error", "forgotten", {}}};
  const auto excuses = excuses_of("# why\nd/a.cpp: far # no test has the time\nd/a.cpp: made # why not\n");
  const Verdict verdict = judge(sites, coverage, excuses);
  EXPECT_EQ(verdict.made, 1U);
  EXPECT_EQ(verdict.excused, 1U);
  EXPECT_EQ(verdict.problems, (std::vector<std::string>{"d/a.cpp:7: no test makes this error: forgotten",
                                                        "unreached.txt:3: fits 0 errors that no test makes: made"}));
  EXPECT_THROW((void)excuses_of("d/a.cpp: no reason"), std::runtime_error);
}

}  // namespace
}  // namespace tern::errors
