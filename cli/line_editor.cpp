#include "cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cwchar>

#include "cli/interrupt.h"

namespace tern::cli {
namespace {

// Waits for a byte of standard input; false where a signal or an error comes first.
bool wait_for_byte() {
  std::array<pollfd, 2> files = {pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{interrupt_file(), POLLIN, 0}};
  while (!interrupted()) {
    const int ready = poll(files.data(), files.size(), -1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && files[0].revents != 0) return !interrupted();
  }
  return false;
}

// EL_GETCFN: gives 1 with the next character, 0 at the end of the input, -1 where a signal or an error ends the wait.
int next_character(EditLine* /*edit*/, wchar_t* character) {
  constexpr auto kIncomplete = static_cast<std::size_t>(-2);
  std::array<char, MB_LEN_MAX> bytes{};
  for (std::size_t count = 0;;) {
    if (!wait_for_byte()) return -1;
    const ssize_t got = read(STDIN_FILENO, &bytes[count++], 1);
    if (got <= 0) return static_cast<int>(got);
    std::mbstate_t state{};
    const std::size_t length = std::mbrtowc(character, bytes.data(), count, &state);
    if (length > 0 && length <= count) return 1;
    if (length != kIncomplete || count == bytes.size()) count = 0;  // no character: left out
  }
}

// Texts are UTF-8 whatever the locale is, and most containers and services have none: libedit and the characters above
// take theirs from it. Not LC_ALL: numbers are written as JSON has them.
EditLine* begin_editing() {
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
  return el_init("tern", stdin, stdout, stderr);
}

}  // namespace

LineEditor::LineEditor() : edit_(begin_editing()), history_(history_init()) {
  HistEvent event{};
  ::history(history_, &event, H_SETSIZE, 500);
  el_set(edit_, EL_HIST, ::history, history_);
  el_set(edit_, EL_CLIENTDATA, this);
  el_set(edit_, EL_PROMPT, &LineEditor::prompt_of);
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_SIGNAL, 1);
  el_set(edit_, EL_GETCFN, &next_character);
}

LineEditor::~LineEditor() {
  history_end(history_);
  el_end(edit_);
}

char* LineEditor::prompt_of(editline* edit) {
  void* self = nullptr;
  el_get(edit, EL_CLIENTDATA, &self);
  return static_cast<LineEditor*>(self)->prompt_.data();
}

LineEditor::Read LineEditor::read(const std::string& prompt, std::string& line) {
  prompt_ = prompt;
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
