#include "cli/chat.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"
#include "chat/image_parts.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"

namespace tern::cli {

Chat::Chat(engine::LLM& llm, engine::SamplingParams sampling, std::string system, ResultWriter* results)
    : llm_(llm), sampling_(std::move(sampling)), system_(std::move(system)), results_(results) {
  reset();
}

void Chat::reset() {
  dialogue_.messages.clear();
  dialogue_.images.clear();
  if (!system_.empty()) dialogue_.messages.push_back({"system", system_, {}, {}});
}

void Chat::set_system(const std::string& text) {
  system_ = text;
  reset();
}

std::size_t Chat::images_missing(const std::string& query) const {
  const std::size_t tags = chat::count_image_tags({{"user", query, {}, {}}});
  return llm_.takes_images() && tags > images_.size() ? tags - images_.size() : 0;
}

engine::Answer Chat::ask(const std::string& query, const std::function<void(std::string_view)>& on_text) {
  std::vector<chat::Message> asked = {{"user", query, {}, {}}};
  const std::vector<std::string> images = std::exchange(images_, {});
  chat::add_image_tags(asked, images.size() - std::min(images.size(), chat::count_image_tags(asked)));
  dialogue_.messages.push_back(std::move(asked.front()));
  dialogue_.images.insert(dialogue_.images.end(), images.begin(), images.end());
  engine::AnswerCallbacks callbacks;
  callbacks.stopped = interrupted;
  if (on_text) callbacks.on_text = [&](std::size_t, std::string_view text) { on_text(text); };
  engine::Answer answer = llm_.chat(dialogue_, sampling_, callbacks);
  ++sampling_.request;  // the same question asked again is another draw
  const bool stopped = answer.reason == engine::FinishReason::aborted;
  if (answer.error || (stopped && answer.text.empty())) {
    dialogue_.messages.pop_back();
    dialogue_.images.resize(dialogue_.images.size() - images.size());
    return answer;
  }
  if (results_ != nullptr && !stopped) results_->write({dialogue_, {}, answer});
  dialogue_.messages.push_back({"assistant", answer.text, {}, {}});
  return answer;
}

namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// What the lines typed at the prompt make: words for the program, or a question, of one line or several.
class Prompt {
 public:
  explicit Prompt(Chat& chat) : chat_(chat) {}

  // Gives the question once it is complete.
  std::optional<std::string> take(const std::string& line) {
    const std::string word(trim(line));
    if (lines_.empty() && !expects_system_ && (word.empty() || is_word(lower_case(word)))) return std::nullopt;
    lines_ += (lines_.empty() ? "" : "\n") + line;
    if (multi_line_ && !word.ends_with('#')) return std::nullopt;
    if (multi_line_) lines_.erase(lines_.rfind('#'));
    std::string text = std::exchange(lines_, {});
    if (!expects_system_ && trim(text).empty()) return std::nullopt;
    if (!expects_system_) return text;
    const std::string_view system = trim(text);
    chat_.set_system(system == "default-system" ? std::string() : std::string(system));
    expects_system_ = false;
    return std::nullopt;
  }
  // What stands before the line to be typed: of several (M), of a system message (S).
  [[nodiscard]] std::string prompt() const {
    if (!multi_line_ && !expects_system_) return "<<< ";
    return cat("<<<[", multi_line_ ? "M" : "", expects_system_ ? "S" : "", "] ");
  }
  [[nodiscard]] bool leaves() const { return leaves_; }
  // Whether nothing waits for more lines; drops what does.
  bool drop() {
    const bool was_empty = lines_.empty() && !expects_system_;
    lines_.clear();
    expects_system_ = false;
    return was_empty;
  }

 private:
  bool is_word(const std::string& word) {
    if (word == "exit" || word == "quit") return leaves_ = true;
    if (word == "multi-line" || word == "single-line") {
      multi_line_ = word == "multi-line";
      return true;
    }
    if (word == "clear") {
      chat_.reset();
      return true;
    }
    if (word != "reset-system") return false;
    log_info("type the new system message, or default-system for the template's own");
    return expects_system_ = true;
  }

  Chat& chat_;
  std::string lines_;
  bool multi_line_ = false;
  bool expects_system_ = false;
  bool leaves_ = false;
};

void print(std::string_view text) { std::cout << text << std::flush; }

// Asks and prints the answer: as it comes, or whole.
engine::Answer ask(Chat& chat, const std::string& query, bool stream) {
  engine::Answer answer = chat.ask(query, stream ? print : std::function<void(std::string_view)>());
  if (!stream && !answer.error) print(answer.text);
  return answer;
}

void require_goes_on() {
  if (terminated()) throw Failure(interrupted_error("the dialogue was stopped", "begin another one"));
}

// Asks for the files of a question's images, as ms-swift does. False where the user left that question.
bool ask_for_images(Chat& chat, LineEditor& editor, const std::string& query) {
  std::vector<std::string> images;
  for (std::size_t missing = chat.images_missing(query); images.size() < missing;) {
    std::string line;
    if (editor.read("image: path or URL <<< ", line) != LineEditor::Read::line) return false;
    if (const std::string_view source = trim(line); !source.empty()) images.emplace_back(source);
  }
  chat.show(images);
  return true;
}

}  // namespace

int converse(Chat& chat, bool stream) {
  log_info(
      "exit or quit leaves; clear forgets the dialogue; multi-line takes questions of several lines, which end with #; "
      "single-line goes back; reset-system asks for a new system message");
  LineEditor editor;
  Prompt prompt(chat);
  std::string line;
  while (!prompt.leaves()) {
    set_interrupt_line("\n");  // at the prompt
    const auto read = editor.read(prompt.prompt(), line);
    if (read == LineEditor::Read::end) return 0;
    if (read == LineEditor::Read::interrupted) {
      require_goes_on();
      clear_interrupt();
      if (prompt.drop() && line.empty()) return 0;
      continue;
    }
    const auto query = prompt.take(line);
    if (!query) continue;
    if (!ask_for_images(chat, editor, *query)) {
      require_goes_on();
      clear_interrupt();
      continue;
    }
    set_interrupt_line("\ntern: stopping this answer; press Ctrl-C again to leave at once\n");
    const engine::Answer answer = ask(chat, *query, stream);
    require_goes_on();
    clear_interrupt();
    if (answer.error) {
      log_warn(cat("the question was left out: ", answer.error->line(), "; or type clear to forget the dialogue"));
      continue;
    }
    print("\n");
  }
  return 0;
}

int answer_pipe(Chat& chat, bool stream) {
  const std::string query{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  const std::string trimmed(trim(query));
  if (trimmed.empty())
    throw Failure(data_error("standard input", "a question", "nothing", "echo 'What is 12 times 7?' | tern infer ..."));
  const engine::Answer answer = ask(chat, trimmed, stream);
  if (answer.error) throw Failure(*answer.error);
  std::cout << '\n';
  if (!std::cout.flush()) {
    throw Failure(failed_error("the answer could not be written to standard output", "check the space left"));
  }
  if (answer.reason == engine::FinishReason::aborted) {
    throw Failure(interrupted_error("the answer was stopped before it was complete", "run it again"));
  }
  return 0;
}

}  // namespace tern::cli
