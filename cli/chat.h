// A dialogue with a model: what was said so far goes with each question.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/result_writer.h"
#include "engine/llm.h"

namespace tern::cli {

class Chat {
 public:
  // Answers also go to `results`, where given. All outlive the chat.
  Chat(engine::LLM& llm, engine::SamplingParams sampling, std::string system, ResultWriter* results);

  void reset();  // forgets all but the system text
  void set_system(const std::string& text);

  // Images that the next question shows: where its text has fewer tags <image>, they come before it.
  void show(const std::vector<std::string>& images) { images_.insert(images_.end(), images.begin(), images.end()); }
  // How many tags the text has beyond those images, of a model that takes images; of others the tag is text.
  [[nodiscard]] std::size_t images_missing(const std::string& query) const;

  // Answers `query` in the dialogue so far, calling `on_text` as the text comes, until `interrupted`. Question and
  // answer join the dialogue; a question without an answer (an error, or stopped before the first word) does not.
  engine::Answer ask(const std::string& query, const std::function<void(std::string_view)>& on_text);

 private:
  engine::LLM& llm_;
  engine::SamplingParams sampling_;
  std::string system_;
  ResultWriter* results_;
  engine::Dialogue dialogue_;
  std::vector<std::string> images_;
};

// Questions typed at the terminal, with ms-swift's words: exit, quit, clear, multi-line, single-line, reset-system
// (and default-system in the place of its message); capitals don't matter. For each <image> in a question its file is
// asked. Ctrl-C stops an answer, drops a line, or, at an empty prompt, leaves. What is wrong with a question is told,
// and the dialogue goes on. `stream` prints an answer as it comes, else whole. Gives the exit status. Throws Failure
// (interrupted) at SIGTERM.
int converse(Chat& chat, bool stream);

// One question from standard input; `stream` as above. Throws Failure for what is wrong with it.
int answer_pipe(Chat& chat, bool stream);

}  // namespace tern::cli
