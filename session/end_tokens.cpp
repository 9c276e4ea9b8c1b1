#include "session/end_tokens.h"

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"

namespace tern::session {

using Json = io::Json;

std::optional<std::int32_t> end_of_turn(const chat::ModelText& text) {
  if (!text.chat_template) return std::nullopt;
  // A text that no template writes by itself.
  static constexpr std::string_view kAnswer = "tern:answer:b1f0c2";
  const Json messages = {{{"role", "user"}, {"content", "question"}}, {{"role", "assistant"}, {"content", kAnswer}}};
  chat::ChatInput input;
  input.messages = &messages;
  const auto& config = text.tokenizer.config();
  input.bos_token = config.bos.content;
  input.eos_token = config.eos.content;
  input.unk_token = config.unk.content;
  input.pad_token = config.pad.content;
  const auto rendered = text.chat_template->render(input);
  if (!rendered) return std::nullopt;  // a template that asks for more than this dialogue has
  const std::size_t at = rendered->rfind(kAnswer);
  if (at == std::string::npos) return std::nullopt;
  const std::string after(trim(std::string_view(*rendered).substr(at + kAnswer.size())));
  const auto ids = text.tokenizer.encode(after, false);
  if (ids.empty() || !text.tokenizer.is_special(ids.front())) return std::nullopt;
  return ids.front();
}

std::vector<std::int32_t> end_token_ids(const models::ModelConfig& config, const GenerationConfig& generation,
                                        const chat::ModelText& text) {
  std::vector<std::int32_t> ids = generation.eos_token_ids;
  for (const std::int64_t id : config.eos_token_ids) ids.push_back(static_cast<std::int32_t>(id));
  ids.push_back(text.tokenizer.config().eos.id);
  ids.push_back(end_of_turn(text).value_or(-1));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [](std::int32_t id) { return id < 0; });
  return ids;
}

}  // namespace tern::session
