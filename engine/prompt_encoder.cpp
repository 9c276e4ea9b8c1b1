#include "engine/prompt_encoder.h"

#include <algorithm>

#include "base/strings.h"
#include "chat/image_parts.h"
#include "chat/template_messages.h"
#include "io/json.h"

namespace tern::engine {

using Json = io::Json;

PromptEncoder::PromptEncoder(const chat::ModelText& text, std::filesystem::path model, const LLMOptions& options)
    : text_(text),
      model_(std::move(model)),
      max_tokens_(options.engine.max_model_len),
      image_sizes_(options.image_sizes),
      templated_(options.use_chat_template && text.chat_template.has_value()),
      kwargs_(std::make_unique<Json>(Json::object())) {}
PromptEncoder::~PromptEncoder() = default;

Result<std::unique_ptr<const PromptEncoder>> PromptEncoder::create(const chat::ModelText& text,
                                                                   const std::filesystem::path& model,
                                                                   const LLMOptions& options, VisionPtr vision) {
  return catching([&] {
    std::unique_ptr<PromptEncoder> encoder(new PromptEncoder(text, model, options));
    encoder->vision_ = std::move(vision);
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

const session::ImagePrompts& PromptEncoder::image_prompts() const {
  std::call_once(images_once_,
                 [this] { images_ = session::ImagePrompts::open(model_, text_.tokenizer, image_sizes_, vision_); });
  return images_->value();
}

std::vector<session::ImagePatches> PromptEncoder::patches_of(const Dialogue& dialogue) const {
  if (dialogue.images.empty()) return {};
  if (const std::size_t tags = chat::count_image_tags(dialogue.messages); tags != dialogue.images.size()) {
    throw Failure(data_error("images", cat("one for each of the ", tags, " tags <image> in the messages"),
                             cat(dialogue.images.size()), "write the tag once for each image"));
  }
  const session::ImagePrompts& prompts = image_prompts();
  if (!templated_) {
    throw Failure(data_error("images", "a model with a chat template, which says where they stand", "no template",
                             "give one with --template, or leave the images out"));
  }
  return prompts.read(dialogue.images, max_tokens_, dialogue.image_places).value();
}

Json PromptEncoder::kwargs_of(const Dialogue& dialogue) const {
  Json all = *kwargs_;
  if (dialogue.template_kwargs.empty()) return all;
  const Json own = io::parse_json(dialogue.template_kwargs, "template variables").value();
  if (!own.is_object()) {
    throw Failure(data_error("template variables", "a JSON object", cat("a JSON ", own.type_name()),
                             R"(write them as {"enable_thinking": false})"));
  }
  for (const auto& [key, value] : own.items()) all[key] = value;
  return all;
}

std::string PromptEncoder::rendered(const Dialogue& dialogue) const {
  jinja::Values messages = chat::template_messages(dialogue.messages).value();
  Json tools;
  chat::ChatInput input;
  input.values = &messages;
  if (!dialogue.tools_json.empty()) {
    tools = io::parse_json(dialogue.tools_json, "tools").value();
    input.tools = &tools;
  }
  if (agent_) {
    input.continue_final_message = agent_->goes_on(messages);
    messages = agent_->apply(messages, std::exchange(input.tools, nullptr));
  }
  jinja::Values texts;
  if (!dialogue.images.empty()) {
    texts = chat::with_image_words(messages, image_prompts().words().in_text);
    messages = chat::with_image_parts(std::move(messages));
  }
  const Json kwargs = kwargs_of(dialogue);
  input.kwargs = &kwargs;
  input.continue_final_message = input.continue_final_message || dialogue.continue_final_message;
  input.add_generation_prompt = dialogue.add_generation_prompt && !input.continue_final_message;
  const auto& config = text_.tokenizer.config();
  input.bos_token = config.bos.content;
  input.eos_token = config.eos.content;
  input.unk_token = config.unk.content;
  input.pad_token = config.pad.content;
  auto whole = text_.chat_template->render(input);
  if (dialogue.images.empty()) return whole.value();
  const auto fits = [&](const Result<std::string>& one) {
    return one.ok() && image_prompts().has_places(*one, dialogue.images.size());
  };
  if (fits(whole)) return *whole;
  input.values = &texts;  // a template that takes texts alone, as GGUFs of InternVL have it
  auto in_words = text_.chat_template->render(input);
  return fits(in_words) ? *in_words : whole.value();
}

EncodedPrompt PromptEncoder::encode_dialogue(const Dialogue& dialogue) const {
  constexpr std::size_t kTail = 256;  // bytes
  EncodedPrompt out;
  out.images = patches_of(dialogue);
  if (agent_ && !dialogue.tools_json.empty()) out.stop = agent_->stop();
  if (!templated_) {
    std::string joined;
    for (const Message& message : dialogue.messages) joined += message.content;
    out.ids = text_.tokenizer.encode(joined, true);
    return out;
  }
  const std::string text = rendered(dialogue);
  out.tail = text.substr(text.size() - std::min(kTail, text.size()));
  out.ids = out.images.empty() ? text_.tokenizer.encode(text, false) : image_prompts().encode(text, out.images).value();
  return out;
}

Result<EncodedPrompt> PromptEncoder::encode(const Prompt& prompt) const {
  return catching([&]() -> EncodedPrompt {
    if (const auto* dialogue = std::get_if<Dialogue>(&prompt)) return encode_dialogue(*dialogue);
    if (const auto* text = std::get_if<std::string>(&prompt)) return {.ids = text_.tokenizer.encode(*text, true)};
    return {.ids = std::get<TokenIds>(prompt)};
  });
}

}  // namespace tern::engine
