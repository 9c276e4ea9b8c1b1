// Prompts to the ids that the model is asked.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "chat/agent_template.h"
#include "chat/model_text.h"
#include "engine/llm.h"
#include "io/json_fwd.h"

namespace tern::engine {

class PromptEncoder {
 public:
  // `text` outlives the encoder; of `options` counts what concerns templates. Errors (usage): `template_kwargs` that is
  // no JSON object, an `agent_template` that there is none of, or that the model's own template cannot carry.
  [[nodiscard]] static Result<std::unique_ptr<const PromptEncoder>> create(const chat::ModelText& text,
                                                                           const LLMOptions& options);
  ~PromptEncoder();
  PromptEncoder(const PromptEncoder&) = delete;
  PromptEncoder& operator=(const PromptEncoder&) = delete;

  // Errors (data): a dialogue that the template refuses, a text that the tokenizer has no ids for.
  [[nodiscard]] Result<TokenIds> encode(const Prompt& prompt) const;

 private:
  PromptEncoder(const chat::ModelText& text, bool templated);
  [[nodiscard]] TokenIds encode_dialogue(const Dialogue& dialogue) const;

  const chat::ModelText& text_;
  bool templated_;
  std::unique_ptr<io::Json> kwargs_;
  std::optional<chat::AgentTemplate> agent_;
};

}  // namespace tern::engine
