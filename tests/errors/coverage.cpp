#include "coverage.h"

#include <simdjson.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace tern::errors {

Coverage read_coverage(std::string json, const std::string& source) {
  Coverage out;
  simdjson::dom::parser parser;
  const std::string prefix = source + "/";
  try {
    const simdjson::dom::element document = parser.parse(json);
    for (const simdjson::dom::element data : document["data"].get_array()) {
      for (const simdjson::dom::element file : data["files"].get_array()) {
        std::string name = std::filesystem::path(file["filename"].get_string().value()).lexically_normal();
        if (name.rfind(prefix, 0) != 0) continue;
        auto& segments = out[name.substr(prefix.size())];
        for (const simdjson::dom::element entry : file["segments"].get_array()) {
          // [line, column, count, has a count, begins a region, is a gap]
          const auto at = [&](std::size_t i) { return entry.get_array().value().at(i); };
          segments.push_back({static_cast<unsigned>(at(0).get_uint64().value()),
                              static_cast<unsigned>(at(1).get_uint64().value()), at(3).get_bool().value(),
                              at(2).get_uint64().value() > 0});
        }
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    throw std::runtime_error(std::string("not an export of llvm-cov: ") + error.what());
  }
  return out;
}

bool executed(const Coverage& coverage, const std::string& file, unsigned line, unsigned column) {
  const auto found = coverage.find(file);
  if (found == coverage.end()) return false;
  const auto& segments = found->second;
  const auto behind = std::upper_bound(segments.begin(), segments.end(), std::tuple(line, column),
                                       [](const std::tuple<unsigned, unsigned>& place, const Segment& segment) {
                                         return place < std::tuple(segment.line, segment.column);
                                       });
  return behind != segments.begin() && std::prev(behind)->code && std::prev(behind)->executed;
}

std::vector<Excuse> excuses_of(const std::string& list) {
  std::vector<Excuse> out;
  std::istringstream in(list);
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(": ");
    const auto reason = line.rfind(" # ");
    if (colon == std::string::npos || reason == std::string::npos || colon > reason) {
      throw std::runtime_error("unreached.txt:" + std::to_string(number) + ": " + line);
    }
    out.push_back({line.substr(0, colon), line.substr(colon + 2, reason - colon - 2), number});
  }
  return out;
}

Verdict judge(const std::vector<ErrorSite>& sites, const Coverage& coverage, const std::vector<Excuse>& excuses) {
  Verdict out;
  std::vector<unsigned> uses(excuses.size());
  for (const ErrorSite& site : sites) {
    if (executed(coverage, site.file, site.first, site.column)) {
      ++out.made;
      continue;
    }
    bool excused = false;
    for (std::size_t i = 0; i < excuses.size(); ++i) {
      if (excuses[i].file != site.file || site.text.find(excuses[i].part) == std::string::npos) continue;
      excused = true;
      ++uses[i];
    }
    out.excused += excused ? 1 : 0;
    if (!excused) {
      out.problems.push_back(site.file + ":" + std::to_string(site.first) + ": no test makes this error: " + site.text);
    }
  }
  for (std::size_t i = 0; i < excuses.size(); ++i) {
    if (uses[i] == 1) continue;
    out.problems.push_back("unreached.txt:" + std::to_string(excuses[i].line) + ": fits " + std::to_string(uses[i]) +
                           " errors that no test makes: " + excuses[i].part);
  }
  return out;
}

}  // namespace tern::errors
