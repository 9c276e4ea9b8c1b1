// every_error EXPORT.json [FOLDER...]: fails, naming each, where an error in the sources is made by no test, or an
// excuse in unreached.txt is not needed. EXPORT.json is what `llvm-cov export` tells of a run of the whole suite
// (script/full.d/coverage). With folders only their errors are looked at.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "coverage.h"

namespace {

int check(const std::vector<std::string>& words) {
  using namespace tern::errors;
  const std::string source = TERN_SOURCE_DIR;
  const auto wanted = [&](const std::string& file) {
    return words.size() < 2 || std::find(words.begin() + 1, words.end(), file.substr(0, file.find('/'))) != words.end();
  };
  auto sites = error_sites(source, makers_of(read_text(source + "/tests/errors/makers.txt")));
  auto excuses = excuses_of(read_text(source + "/tests/errors/unreached.txt"));
  std::erase_if(sites, [&](const ErrorSite& site) { return !wanted(site.file); });
  std::erase_if(excuses, [&](const Excuse& excuse) { return !wanted(excuse.file); });
  const Verdict verdict = judge(sites, read_coverage(read_text(words[0]), source), excuses);
  for (const auto& problem : verdict.problems) std::printf("%s\n", problem.c_str());
  std::printf("%zu errors: %zu made by a test, %zu excused, %zu not made\n", sites.size(), verdict.made,
              verdict.excused, sites.size() - verdict.made - verdict.excused);
  return verdict.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1) return check({argv + 1, argv + argc});
    std::fprintf(stderr, "every_error EXPORT.json [FOLDER...]\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "every_error: %s\n", error.what());
  }
  return 2;
}
