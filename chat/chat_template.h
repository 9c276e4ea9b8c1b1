// A model's chat template: messages to the prompt, byte for byte as transformers' apply_chat_template renders it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/json_fwd.h"

namespace tern::jinja {
class Value;
}  // namespace tern::jinja

namespace tern::chat {

struct Dialogue;

// What the template sees. JSON is passed by pointer so that a dataset's rows need no copy; null: absent.
struct ChatInput {
  const io::Json* messages = nullptr;  // array of {role, content, ...}
  const std::vector<jinja::Value>* values =
      nullptr;                          // in the place of `messages`: from make_message, as rows give them
  const io::Json* tools = nullptr;      // array of JSON schemas; null is None
  const io::Json* documents = nullptr;  // array of {title, text}; null is None
  const io::Json* kwargs = nullptr;     // object: chat_template_kwargs, enable_thinking and the like
  bool add_generation_prompt = false;
  // Ends the text inside the last message, after its content, so that a model goes on with it.
  bool continue_final_message = false;
  std::string bos_token, eos_token, unk_token, pad_token;    // "" is not passed on
  std::optional<std::chrono::system_clock::time_point> now;  // what strftime_now tells, in local time; unset: the clock
};

struct Rendered {
  std::string text;
  // [begin, end) in bytes of each {% generation %} block, in the order that they end; empty for a template without.
  std::vector<std::pair<std::size_t, std::size_t>> generation;
};

// Immutable once parsed; copies share the tree, and any number of threads may render at once.
class ChatTemplate {
 public:
  // `where` names the template in errors ("tokenizer_config.json: chat_template"), followed by :line:column. Fails with
  // ErrorKind::data for what Jinja would refuse, and for tags that reach other templates.
  [[nodiscard]] static Result<ChatTemplate> parse(std::string source, std::string where);

  // Fails with ErrorKind::data where the template raises an exception or goes over its limits of time, memory, output
  // and recursion (Limits in jinja_eval.h).
  [[nodiscard]] Result<std::string> render(const ChatInput& input) const;
  [[nodiscard]] Result<Rendered> render_with_generation(const ChatInput& input) const;
  // The first `count` messages of `dialogue`, which read_dialogue(input) gave; of `input` only the clock and
  // add_generation_prompt count. Copies no message. Fails as render().
  [[nodiscard]] Result<std::string> render_prefix(const Dialogue& dialogue, std::size_t count,
                                                  const ChatInput& input) const;

  [[nodiscard]] const std::string& source() const;
  [[nodiscard]] const std::string& where() const;
  [[nodiscard]] bool has_generation() const;  // the template marks what the assistant wrote

 private:
  struct Parsed;
  [[nodiscard]] std::string evaluated(const Dialogue& dialogue, std::size_t count, const ChatInput& input,
                                      std::vector<std::pair<std::size_t, std::size_t>>* generation) const;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace tern::chat
