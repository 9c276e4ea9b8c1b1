// How tools, their calls and their results are written for a model whose chat template has no words for them
// (--agent_template): into the texts of messages, before the template renders these.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "jinja/value.h"

namespace tern::chat {

// One format, as its model's authors publish it. The texts are Jinja, with `tools` as [{type, function}], `calls` as
// [{name, arguments}] and `responses` as texts.
struct AgentFormat {
  std::string_view name;
  std::string system;     // the system message, of `system` ("" where the dialogue has none) and `tools`
  std::string question;   // in its place the first user message, of `content` and `tools`; "": the system message
  std::string calls;      // an assistant's message that calls, of `content` and `calls`
  std::string responses;  // the message with the results of one turn; "": each stays a message of its own
  std::string role;       // of these
  // Of formats where a call is a line of the assistant's own text, which goes on behind the result: what stands before
  // the call's name, before its arguments, and before the result. Then there are no `responses` and no role.
  std::string_view action = {}, action_input = {}, observation = {};
  bool after_question = false;  // a result may also follow a question
};
[[nodiscard]] const std::vector<AgentFormat>& agent_formats();

class AgentTemplate {
 public:
  // Errors (usage): no such format; a chat template that drops or refuses messages of the role that results have in it.
  [[nodiscard]] static Result<AgentTemplate> create(std::string_view name, const ChatTemplate& chat_template);

  // The messages without tool_calls, as template_messages gives them, and without the tools beside them: `tools` is an
  // array of JSON schemas, null where there are none. With `marks`, what an assistant's text holds that it did not say,
  // or that is not learned, stands between kUnlearnedBegin and kUnlearnedEnd (chat/unlearned.h). Throws Failure (data)
  // for tools that are no array of objects or say too little, for results where none can stand, and for two weights of
  // loss in one turn.
  [[nodiscard]] jinja::Values apply(const jinja::Values& messages, const io::Json* tools, bool marks = false) const;
  // Whether the answer to `messages`, as template_messages gives them, goes on in their last message: behind the
  // results of a format whose calls are lines of the assistant's text.
  [[nodiscard]] bool goes_on(const jinja::Values& messages) const;
  // Where such an answer ends, as what follows is the tool's to say; "": where any other does.
  [[nodiscard]] std::string_view stop() const;

 private:
  struct Parsed;
  explicit AgentTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace tern::chat
