// What ChatService says of prompts that nobody is to answer, and of their images.
#include <atomic>
#include <exception>
#include <utility>

#include "server/chat_service.h"
#include "server/waiting_request.h"

namespace tern::server {
namespace {

engine::Dialogue dialogue_of(const ChatRequest& request) {
  engine::Dialogue dialogue = request.dialogue;
  dialogue.template_kwargs = request.template_kwargs;
  dialogue.add_generation_prompt = request.add_generation_prompt;
  dialogue.continue_final_message = request.continue_final_message;
  return dialogue;
}

bool is_theirs(const Error& error) { return error.kind == ErrorKind::data || error.kind == ErrorKind::usage; }

// Who asked for a prompt's ids: told once, of what comes first.
class Asker {
 public:
  explicit Asker(ChatService::TellIds done) : done_(std::move(done)) {}
  [[nodiscard]] bool is_told() const { return is_told_; }
  void tell(ChatService::FoundIds&& found) {
    if (!is_told_.exchange(true)) done_(std::move(found));
  }

 private:
  const ChatService::TellIds done_;
  std::atomic<bool> is_told_{false};
};

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

ChatService::FoundIds ChatService::ids_of(engine::Dialogue&& dialogue) const {
  auto prompt = llm_.prepare(engine::Prompt(std::move(dialogue)));
  if (prompt) return {std::move(prompt->ids), std::nullopt};
  const Error error = told(prompt.error());
  return {{}, Refusal{error, is_theirs(error) ? 400 : 500}};
}

Result<engine::TokenIds> ChatService::prompt_ids(const engine::Prompt& prompt) const {
  auto ids = llm_.encode(prompt);
  if (!ids) return told(ids.error());
  return ids;
}

std::weak_ptr<ImageFetch> ChatService::find_prompt_ids(const ChatRequest& request, TellIds done) {
  engine::Dialogue dialogue = dialogue_of(request);
  const auto far = has_far_images(dialogue);
  if (!far || !*far) {
    done(far ? ids_of(std::move(dialogue)) : FoundIds{{}, Refusal{far.error(), 400}});
    return {};
  }
  if (const auto full = full_queue()) {
    done({{}, Refusal{*full, 429}});
    return {};
  }
  const auto asker = std::make_shared<Asker>(std::move(done));
  const auto kept = std::make_shared<engine::Dialogue>(std::move(dialogue));
  auto fetch = images_.fetch(*kept, [this, kept, asker](Result<std::vector<std::string>>&& images) {
    if (asker->is_told()) return;
    if (!images) return asker->tell({{}, Refusal{images.error(), is_theirs(images.error()) ? 400 : 503}});
    kept->images = std::move(*images);
    try {
      asker->tell(ids_of(std::move(*kept)));
    } catch (const std::exception& error) {  // no memory
      asker->tell({{}, Refusal{unanswered(error), 500}});
    }
  });
  if (request.record != nullptr) {
    request.record->on_expiry([fetch, weak = std::weak_ptr(asker)] {
      if (const auto still = fetch.lock()) still->cancel();
      if (const auto waits = weak.lock()) waits->tell({{}, Refusal{out_of_time(), 504}});
    });
  }
  return fetch;
}

}  // namespace tern::server
