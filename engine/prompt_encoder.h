// Prompts to the ids that the model is asked.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "chat/agent_template.h"
#include "chat/model_text.h"
#include "engine/llm.h"
#include "io/json.h"
#include "session/image_prompt.h"

namespace tern::engine {

class PromptEncoder {
 public:
  using VisionPtr = std::shared_ptr<const models::VisionConfig>;  // the model's, of an mmproj file or not
  // `text`, of the model at `model`, outlives the encoder; of `options` counts what concerns templates, and the longest
  // prompt. Errors (usage): `template_kwargs` that is no JSON object, an `agent_template` that there is none of, or
  // that the model's own template cannot carry.
  [[nodiscard]] static Result<std::unique_ptr<const PromptEncoder>> create(const chat::ModelText& text,
                                                                           const std::filesystem::path& model,
                                                                           const LLMOptions& options,
                                                                           VisionPtr vision = nullptr);
  ~PromptEncoder();
  PromptEncoder(const PromptEncoder&) = delete;
  PromptEncoder& operator=(const PromptEncoder&) = delete;

  // Errors (data): a dialogue that the template refuses, a text that the tokenizer has no ids for, images that cannot
  // be read, of another number than their tags, or for a model that takes none.
  [[nodiscard]] Result<EncodedPrompt> encode(const Prompt& prompt) const;

 private:
  PromptEncoder(const chat::ModelText& text, std::filesystem::path model, const LLMOptions& options);
  [[nodiscard]] EncodedPrompt encode_dialogue(const Dialogue& dialogue) const;
  [[nodiscard]] io::Json kwargs_of(const Dialogue& dialogue) const;
  [[nodiscard]] std::string rendered(const Dialogue& dialogue) const;
  [[nodiscard]] std::vector<session::ImagePatches> patches_of(const Dialogue& dialogue) const;
  [[nodiscard]] const session::ImagePrompts& image_prompts() const;  // read at the first image

  const chat::ModelText& text_;
  std::filesystem::path model_;
  VisionPtr vision_;
  std::int64_t max_tokens_;
  session::ImageSizes image_sizes_;
  bool templated_;
  mutable std::once_flag images_once_;
  mutable std::optional<Result<session::ImagePrompts>> images_;
  std::unique_ptr<io::Json> kwargs_;
  std::optional<chat::AgentTemplate> agent_;
};

}  // namespace tern::engine
