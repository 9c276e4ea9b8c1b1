// What ChatService says of prompts that nobody is to answer, and of their images.
#include <utility>

#include "server/chat_service.h"

namespace tern::server {
namespace {

engine::Dialogue dialogue_of(const ChatRequest& request) {
  engine::Dialogue dialogue = request.dialogue;
  dialogue.template_kwargs = request.template_kwargs;
  dialogue.add_generation_prompt = request.add_generation_prompt;
  dialogue.continue_final_message = request.continue_final_message;
  return dialogue;
}

}  // namespace

Result<bool> ChatService::has_far_images(engine::Dialogue& dialogue) const {
  auto far = images_.admit(dialogue);
  if (far && *far && !llm_.takes_images()) {
    return data_error(dialogue.image_places.empty() ? "image" : dialogue.image_places.front(),
                      "text alone, as the model sees no images", "an image", "leave it out");
  }
  return far;
}

Result<engine::TokenIds> ChatService::prompt_ids(const ChatRequest& request) const {
  return prompt_ids(engine::Prompt(dialogue_of(request)));
}

Result<engine::TokenIds> ChatService::ids_of(engine::Dialogue&& dialogue) const {
  auto prompt = llm_.prepare(engine::Prompt(std::move(dialogue)));
  if (!prompt) return told(prompt.error());
  return std::move(prompt->ids);
}

Result<engine::TokenIds> ChatService::prompt_ids(const engine::Prompt& prompt) const {
  auto ids = llm_.encode(prompt);
  if (!ids) return told(ids.error());
  return ids;
}

std::weak_ptr<ImageFetch> ChatService::find_prompt_ids(const ChatRequest& request, FoundIds done) {
  engine::Dialogue dialogue = dialogue_of(request);
  const auto far = has_far_images(dialogue);
  if (!far || !*far) {
    done(far ? ids_of(std::move(dialogue)) : far.error());
    return {};
  }
  if (const auto full = full_queue()) {
    done(*full);
    return {};
  }
  const auto kept = std::make_shared<engine::Dialogue>(std::move(dialogue));
  return images_.fetch(*kept, [this, kept, done = std::move(done)](Result<std::vector<std::string>>&& images) {
    if (!images) return done(images.error());
    kept->images = std::move(*images);
    done(ids_of(std::move(*kept)));
  });
}

}  // namespace tern::server
