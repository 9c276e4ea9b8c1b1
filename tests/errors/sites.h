// The places in the sources that make an error for a user, found by reading them.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace tern::errors {

struct ErrorSite {
  std::string file;    // relative to the source folder
  unsigned first = 0;  // lines of the call, first and last
  unsigned last = 0;
  unsigned column = 0;             // of the call's first letter, from 1
  std::string maker;               // `data_error`, or a function of makers.txt
  std::string text;                // the call as written, runs of blanks as one
  std::vector<std::string> parts;  // its arguments as written
};

// A function that gives back an Error or a Failure, or throws one and never returns, and that calls a maker itself.
struct Maker {
  std::string file;
  std::string name;
  // Whether each of its callers is a site, as what they hand over makes the error: those in its own folder, or in all.
  // Else the calls in its body are.
  bool callers = false;
  bool everywhere = false;

  auto operator<=>(const Maker&) const = default;
};

// The folders whose errors reach users.
[[nodiscard]] const std::vector<std::string>& folders();
// usage_error and its like, of base/status.h.
[[nodiscard]] const std::set<std::string>& general_makers();

// The lines of makers.txt, `file: name callers`, `file: name everywhere` or `file: name itself`. Throws
// std::runtime_error for another line.
[[nodiscard]] std::set<Maker> makers_of(const std::string& list);
// The makers that the text of a file defines; `callers` is false in each.
[[nodiscard]] std::set<Maker> makers_in(const std::string& file, const std::string& text);
// Whether the text defines a function of that name that gives back an Error or a Failure, or throws one and never
// returns; or a struct of that name.
[[nodiscard]] bool defines(const std::string& text, const std::string& name);

// Calls of the general makers, and of those of the same folder whose callers are sites.
[[nodiscard]] std::vector<ErrorSite> error_sites(const std::filesystem::path& source, const std::set<Maker>& makers);
[[nodiscard]] std::vector<ErrorSite> error_sites_in(const std::string& file, const std::string& text,
                                                    const std::set<Maker>& makers);

// Every source and header of folders(), by its path relative to the source folder, with its text.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> source_files(const std::filesystem::path& source);
[[nodiscard]] std::string read_text(const std::filesystem::path& path);

}  // namespace tern::errors
