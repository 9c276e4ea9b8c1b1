#include "cli/line_editor.h"

#include <histedit.h>

#include "cli/interrupt.h"

namespace tern::cli {

LineEditor::LineEditor() : edit_(el_init("tern", stdin, stdout, stderr)), history_(history_init()) {
  HistEvent event{};
  ::history(history_, &event, H_SETSIZE, 500);
  el_set(edit_, EL_HIST, ::history, history_);
  el_set(
      edit_, EL_PROMPT, +[](EditLine*) {
        static char prompt[] = "<<< ";
        return prompt;
      });
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_SIGNAL, 1);
}

LineEditor::~LineEditor() {
  history_end(history_);
  el_end(edit_);
}

LineEditor::Read LineEditor::read(std::string& line) {
  int count = 0;
  const char* text = el_gets(edit_, &count);
  line.clear();
  if (interrupted()) {
    const LineInfo* typed = el_line(edit_);
    line.assign(typed->buffer, typed->lastchar);
    return Read::interrupted;
  }
  if (text == nullptr || count <= 0) return Read::end;
  line.assign(text, static_cast<std::size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) ::history(history_, &event, H_ENTER, line.c_str());
  return Read::line;
}

}  // namespace tern::cli
