#include "engine/prompt_encoder.h"

#include "base/strings.h"
#include "chat/template_messages.h"
#include "io/json.h"

namespace tern::engine {

using Json = io::Json;

PromptEncoder::PromptEncoder(const chat::ModelText& text, bool templated)
    : text_(text), templated_(templated), kwargs_(std::make_unique<Json>(Json::object())) {}
PromptEncoder::~PromptEncoder() = default;

Result<std::unique_ptr<const PromptEncoder>> PromptEncoder::create(const chat::ModelText& text,
                                                                   const LLMOptions& options) {
  return catching([&] {
    std::unique_ptr<PromptEncoder> encoder(
        new PromptEncoder(text, options.use_chat_template && text.chat_template.has_value()));
    if (!options.template_kwargs.empty()) {
      *encoder->kwargs_ = io::parse_json(options.template_kwargs, "template variables").value();
    }
    if (!encoder->kwargs_->is_object()) {
      throw Failure(
          usage_error(cat("the template variables are a JSON ", encoder->kwargs_->type_name(), ", not an object"),
                      R"(write them as {"enable_thinking": false})"));
    }
    if (!options.agent_template.empty()) {
      if (!encoder->templated_) {
        throw Failure(usage_error("--agent_template writes into a chat template, and the model has none",
                                  "give one with --template, or remove it"));
      }
      encoder->agent_ = chat::AgentTemplate::create(options.agent_template, *text.chat_template).value();
    }
    return std::unique_ptr<const PromptEncoder>(std::move(encoder));
  });
}

TokenIds PromptEncoder::encode_dialogue(const Dialogue& dialogue) const {
  const tokenizer::Tokenizer& tokenizer = text_.tokenizer;
  if (!templated_) {
    std::string joined;
    for (const Message& message : dialogue.messages) joined += message.content;
    return tokenizer.encode(joined, true);
  }
  jinja::Values messages = chat::template_messages(dialogue.messages).value();
  Json tools;
  chat::ChatInput input;
  input.values = &messages;
  if (!dialogue.tools_json.empty()) {
    tools = io::parse_json(dialogue.tools_json, "tools").value();
    input.tools = &tools;
  }
  if (agent_) messages = agent_->apply(messages, std::exchange(input.tools, nullptr));
  input.kwargs = kwargs_.get();
  input.add_generation_prompt = true;
  const auto& config = tokenizer.config();
  input.bos_token = config.bos.content;
  input.eos_token = config.eos.content;
  input.unk_token = config.unk.content;
  input.pad_token = config.pad.content;
  return tokenizer.encode(text_.chat_template->render(input).value(), false);
}

Result<TokenIds> PromptEncoder::encode(const Prompt& prompt) const {
  return catching([&] {
    if (const auto* dialogue = std::get_if<Dialogue>(&prompt)) return encode_dialogue(*dialogue);
    if (const auto* text = std::get_if<std::string>(&prompt)) return text_.tokenizer.encode(*text, true);
    return std::get<TokenIds>(prompt);
  });
}

}  // namespace tern::engine
