// Runs the built program as a user types it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tern::e2e {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one ended it
  std::string out;
  std::string err;

  // The last line of stderr without newline.
  [[nodiscard]] std::string last_error_line() const;
};

struct Options {
  std::string input;                             // stdin
  std::map<std::string, std::string> variables;  // set on top of a clean environment (PATH, HOME, TERN_HOME kept)
  std::filesystem::path folder;                  // working directory; empty: this one
  std::string stdout_path;                       // stdout goes to this file (`/dev/full`) instead of `out`
  int seconds = 300;                             // a run that takes longer is killed: status 128 + 9
};

[[nodiscard]] Outcome run(const std::vector<std::string>& words, const Options& options = {});

// A folder that vanishes with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file below the folder and gives its path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace tern::e2e
