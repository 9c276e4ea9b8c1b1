#include "server/texts_field.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/strings.h"
#include "io/json.h"
#include "server/openai/messages.h"

namespace tern::server {
namespace {

using engine::TokenIds;

// At most `most` of the ids, of which `own` are the text's and the others stand around them.
TokenIds cut(TokenIds ids, const TokenIds& own, std::int64_t most, bool left) {
  const std::int64_t more = static_cast<std::int64_t>(ids.size()) - most;
  if (more <= 0) return ids;
  auto begin = std::search(ids.begin(), ids.end(), own.begin(), own.end());
  auto end = begin + static_cast<std::int64_t>(own.size());
  if (own.empty() || begin == ids.end() || end - begin < more) {
    begin = ids.begin();
    end = ids.end();
  }
  ids.erase(left ? begin : end - more, left ? begin + more : end);
  return ids;
}

engine::Prompt dialogue_field(JsonBody& body) {
  engine::Dialogue dialogue = openai::dialogue_fields(body);
  dialogue.add_generation_prompt = body.boolean("add_generation_prompt").value_or(false);
  dialogue.continue_final_message = body.boolean("continue_final_message").value_or(false);
  if (dialogue.add_generation_prompt && dialogue.continue_final_message) {
    throw body.wrong("continue_final_message", "false where add_generation_prompt is true");
  }
  if (auto kwargs = body.object("chat_template_kwargs")) dialogue.template_kwargs = kwargs->json().dump();
  return dialogue;
}

}  // namespace

std::vector<engine::Prompt> prompts_field(JsonBody& body, std::string_view key) {
  constexpr const char* kExpected = "a text, token ids, or a list of either";
  const io::Json* given = body.find(key);
  if (given == nullptr) throw body.wrong(key, kExpected);
  if (given->is_string()) return {given->text()};
  if (!given->is_array() || given->empty()) throw body.wrong(key, kExpected);
  const auto ids_of = [&](const io::Json& list) {
    engine::TokenIds ids;
    for (const io::Json& id : list) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMost) throw body.wrong(key, kExpected);
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  };
  std::vector<engine::Prompt> out;
  if ((*given)[0].is_number()) {
    out.emplace_back(ids_of(*given));
    return out;
  }
  for (const io::Json& one : *given) {
    if (one.is_string()) {
      out.emplace_back(one.text());
    } else if (one.is_array()) {
      out.emplace_back(ids_of(one));
    } else {
      throw body.wrong(key, kExpected);
    }
  }
  return out;
}

AskedTexts texts_fields(JsonBody& body) {
  AskedTexts texts;
  if (body.find("messages") != nullptr) {
    texts.key = "messages";
    texts.prompts.push_back(dialogue_field(body));
    if (body.boolean("add_special_tokens").value_or(false)) {
      throw body.wrong("add_special_tokens", "false, as the template writes them");
    }
  } else {
    texts.key = "input";
    texts.prompts = prompts_field(body, "input");
    texts.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  }
  texts.truncate_prompt_tokens = body.integer("truncate_prompt_tokens", -1);
  if (texts.truncate_prompt_tokens == 0) throw body.wrong("truncate_prompt_tokens", "-1, or 1 and more");
  if (const auto side = body.text("truncation_side")) {
    if (side != "left" && side != "right") throw body.wrong("truncation_side", "left or right");
    texts.truncate_left = side == "left";
  }
  body.takes({"user", "request_id", "priority"});
  return texts;
}

std::vector<engine::Prompt> prompts_for(const engine::LLM& llm, const AskedTexts& texts, std::string_view prefix) {
  std::vector<engine::Prompt> prompts = texts.prompts;
  const auto& tokenizer = llm.session().text->tokenizer;
  std::int64_t most = texts.truncate_prompt_tokens.value_or(std::numeric_limits<std::int64_t>::max());
  if (most == -1) most = llm.max_model_len();
  for (engine::Prompt& prompt : prompts) {
    auto* text = std::get_if<std::string>(&prompt);
    if (text != nullptr) text->insert(0, prefix);
    if (texts.add_special_tokens && !texts.truncate_prompt_tokens) continue;
    const TokenIds own = text != nullptr ? tokenizer.encode(*text, false) : TokenIds();
    TokenIds ids = text != nullptr && !texts.add_special_tokens ? own : llm.encode(prompt).value();
    prompt = cut(std::move(ids), own, most, texts.truncate_left);
  }
  return prompts;
}

}  // namespace tern::server
