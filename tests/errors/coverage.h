// What the tests executed of the sources (clang's source-based coverage), and which errors they made.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sites.h"

namespace tern::errors {

// From its place up to the next segment's the code ran as often as its region did.
struct Segment {
  unsigned line = 0;
  unsigned column = 0;
  bool code = false;  // else between functions, or never compiled
  bool executed = false;
};

// By file, relative to the source folder, in the order of the text.
using Coverage = std::map<std::string, std::vector<Segment>>;

// Reads what `llvm-cov export` writes. Throws std::runtime_error where that is something else.
[[nodiscard]] Coverage read_coverage(std::string json, const std::string& source);

// Whether the region that holds this place was executed.
[[nodiscard]] bool executed(const Coverage& coverage, const std::string& file, unsigned line, unsigned column);

// A line of unreached.txt, `file: part of the call # why no test makes it`.
struct Excuse {
  std::string file;
  std::string part;
  unsigned line = 0;
};
// Throws std::runtime_error for another line.
[[nodiscard]] std::vector<Excuse> excuses_of(const std::string& list);

struct Verdict {
  std::size_t made = 0;
  std::size_t excused = 0;
  std::vector<std::string> problems;  // an error that no test makes, an excuse that fits not exactly one such error
};
[[nodiscard]] Verdict judge(const std::vector<ErrorSite>& sites, const Coverage& coverage,
                            const std::vector<Excuse>& excuses);

}  // namespace tern::errors
