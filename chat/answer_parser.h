// What a model's answer says beside its text: what it thought first, and the calls of tools in it, in the words of its
// family. The inverse of what templates write into a dialogue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::chat {

// A piece of an answer, as it comes. A call comes as one `call` piece, which names the tool, and pieces of its
// arguments, which joined are the text of one JSON object.
struct AnswerPart {
  enum class Kind { reasoning, content, call, arguments };
  Kind kind = Kind::content;
  std::string text;       // of reasoning, content and arguments; a call's name
  std::int64_t call = 0;  // which call of the answer, from 0
  std::string id;         // of a call whose id the model writes itself (Mistral, Kimi); "": it doesn't

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Takes an answer's text in any cuts and gives the same parts, joined: nothing of a marker is ever given as content,
// and what turns out to be no call (broken JSON, an end in the middle) is given as the text that it is. Never throws.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  AnswerParser() = default;
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  [[nodiscard]] virtual std::vector<AnswerPart> push(std::string_view text) = 0;
  [[nodiscard]] virtual std::vector<AnswerPart> finish() = 0;
};

// How a family writes thoughts and calls; "" is none.
struct AnswerFormats {
  std::string reasoning;  // a vLLM --reasoning-parser: qwen3, deepseek_r1, glm45, openai_gptoss, mistral, ...
  std::string tool_call;  // a vLLM --tool-call-parser: hermes, qwen3_coder, llama3_json, mistral, deepseek_v3, ...
};

// The names that there are, for help and errors.
[[nodiscard]] const std::vector<std::string>& reasoning_formats();
[[nodiscard]] const std::vector<std::string>& tool_call_formats();

// Those that a model's chat template writes, by the markers in its text; "" where it has none.
[[nodiscard]] AnswerFormats formats_of_template(std::string_view chat_template);

struct ParserOptions {
  AnswerFormats formats;
  std::string prompt_tail;     // the end of the rendered prompt: it may have opened the thoughts already ("<think>\n")
  std::string tools_json;      // the request's tools, whose types tell how XML's values are read; "": no calls are read
  bool parallel_calls = true;  // false: what follows the first call is left out
  // A call is told when it's whole, so that one that breaks is text to its last letter: for answers that aren't
  // streamed. Else its name is told at its first argument; what breaks later is text from there on.
  bool whole_calls = false;
};

// Errors (usage): a name that is none of the formats.
[[nodiscard]] Result<std::unique_ptr<AnswerParser>> make_answer_parser(const ParserOptions& options);

// Whether the family's markers are special tokens, which decoding must keep for the parser to see them.
[[nodiscard]] bool keeps_special_tokens(const AnswerFormats& formats);

}  // namespace tern::chat
