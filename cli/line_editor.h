// Lines from the terminal, with editing and history (libedit).
#pragma once

#include <string>

struct editline;  // libedit's
struct history;

namespace tern::cli {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Read {
    line,
    end,          // of the input
    interrupted,  // by a signal; `line` is what had been typed
  };
  // The next line, without its newline; `prompt` stands before it.
  [[nodiscard]] Read read(const std::string& prompt, std::string& line);

 private:
  static char* prompt_of(editline* edit);

  editline* edit_;
  ::history* history_;
  std::string prompt_;
};

}  // namespace tern::cli
