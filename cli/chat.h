// A dialogue with a model: what was said so far goes with each question.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/result_writer.h"
#include "engine/llm.h"

namespace tern::cli {

class Chat {
 public:
  // Answers also go to `results`, where given. All outlive the chat.
  Chat(engine::LLM& llm, engine::SamplingParams sampling, std::string system, ResultWriter* results);

  void reset();  // forgets all but the system text
  void set_system(const std::string& text);

  // Answers `query` in the dialogue so far, calling `on_text` as the text comes, until `interrupted`. Question and
  // answer join the dialogue; a question without an answer (an error, or stopped before the first word) does not.
  engine::Answer ask(const std::string& query, const std::function<void(std::string_view)>& on_text);

 private:
  engine::LLM& llm_;
  engine::SamplingParams sampling_;
  std::string system_;
  ResultWriter* results_;
  engine::Dialogue dialogue_;
};

// Questions typed at the terminal, with ms-swift's words: exit, quit, clear, multi-line, single-line, reset-system
// (and default-system in the place of its message); capitals don't matter.
// Ctrl-C stops an answer, drops a line, or, at an empty prompt, leaves. What is wrong with a question is told, and the
// dialogue goes on. `stream` prints an answer as it comes, else whole. Gives the exit status. Throws Failure
// (interrupted) at SIGTERM.
int converse(Chat& chat, bool stream);

// One question from standard input; `stream` as above. Throws Failure for what is wrong with it.
int answer_pipe(Chat& chat, bool stream);

}  // namespace tern::cli
