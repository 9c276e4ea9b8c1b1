// The places in the sources that make an error for a user, found by reading them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tern::errors {

struct ErrorSite {
  std::string file;    // relative to the source folder
  unsigned first = 0;  // lines of the call, first and last
  unsigned last = 0;
  std::string maker;  // `data_error`, or a function or struct that takes a Site of its caller
  std::string text;   // the call as written, runs of blanks as one
};

// The folders whose errors reach users.
[[nodiscard]] const std::vector<std::string>& folders();

// Calls of the makers of base/status.h, and of each function and struct of the same folder that declares
// `Site site = Site::current()`. A call that hands on `site` is its caller's.
[[nodiscard]] std::vector<ErrorSite> error_sites(const std::filesystem::path& source);
[[nodiscard]] std::vector<ErrorSite> error_sites_in(const std::string& file, const std::string& text,
                                                    const std::vector<std::string>& makers);
[[nodiscard]] std::vector<std::string> makers_in(const std::string& text);

}  // namespace tern::errors
