#include "tokenizer/gguf/roles.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tokenizer/fim_tokens.h"

namespace tern::tokenizer {

namespace {

using Names = std::vector<std::string_view>;

// Tokens that end a turn are control tokens whatever the file says.
const Names kEnds = {"<|eot_id|>",
                     "<|im_end|>",
                     "<|end|>",
                     "<|return|>",
                     "<|call|>",
                     "<|flush|>",
                     "<|calls|>",
                     "<end_of_turn>",
                     "<|endoftext|>",
                     "</s>",
                     "<|eom_id|>",
                     "<EOT>",
                     "_<EOT>",
                     "[EOT]",
                     "[EOS]",
                     "<|end_of_text|>",
                     "<end_of_utterance>",
                     "<eos>",
                     "<turn|>",
                     "<|tool_response>",
                     "<｜end▁of▁sentence｜>",
                     "[e~["};
// Always shown, as gpt-oss's channels are part of its text.
const Names kShown = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
class Roles {
 public:
  explicit Roles(const GgufVocabulary& vocabulary) : file_(vocabulary), roles_(vocabulary.tokens.size()) {
    for (std::size_t id = 0; id < roles_.size(); ++id) {
      by_text_.emplace(file_.tokens[id], id);
      const std::int32_t type = file_.token_types.empty() ? kGgufNormal : file_.token_types[id];
      roles_[id].unknown = type == kGgufUnknown;
      roles_[id].control = type == kGgufControl;
      roles_[id].user_defined = type == kGgufUserDefined;
    }
  }

  std::vector<GgufTokenRole> take() {
    fill_in_the_middle();
    for (const std::string_view text : kEnds) set(text, [](GgufTokenRole& role) { role.control = true; });
    const auto shown = [](GgufTokenRole& role) { role = {false, false, true, false, false}; };
    for (const std::string_view text : kShown) set(text, shown);
    const bool calls = has("<|call|>") || has("<|calls|>");
    // Beside such tokens <|end|> closes a message, not the answer.
    if (calls && (has("<|return|>") || has("<|flush|>"))) set("<|end|>", shown);
    if (has("<|tool_response>")) set("</s>", [](GgufTokenRole& role) { role = {}; });
    strip_white_space();
    return std::move(roles_);
  }

 private:
  [[nodiscard]] bool has(std::string_view text) const { return by_text_.contains(text); }
  template <typename F>
  void set(std::string_view text, F&& change) {
    if (const auto found = by_text_.find(text); found != by_text_.end()) change(roles_[found->second]);
  }

  // The marks of a gap in code are control tokens, unless the file names another token for the purpose.
  // Where several names are in the vocabulary, llama.cpp takes the first in the order of its hash table; here the one
  // with the lowest id.
  void fill_in_the_middle() {
    for (std::size_t i = 0; i < fim_names().size(); ++i) {
      const auto& named = file_.fim_ids[i];
      if (named && static_cast<std::size_t>(*named) < roles_.size()) continue;
      std::size_t lowest = roles_.size();
      for (const std::string_view text : fim_names()[i]) {
        if (const auto found = by_text_.find(text); found != by_text_.end()) lowest = std::min(lowest, found->second);
      }
      if (lowest < roles_.size()) roles_[lowest].control = true;
    }
  }

  // Not in the file: by the model's or the pre-tokenizer's name.
  void strip_white_space() {
    std::string name = file_.name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto names = [](const std::string& text, const Names& parts) {
      return std::any_of(parts.begin(), parts.end(),
                         [&](std::string_view part) { return text.find(part) != std::string::npos; });
    };
    const auto left = [](GgufTokenRole& role) { role.lstrip = true; };
    if (names(file_.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
        names(file_.architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
      set("<mask>", left);
    } else if (names(name, {"phi-3", "phi3"})) {
      for (GgufTokenRole& role : roles_) role.rstrip = role.control || role.unknown || role.user_defined;
      set("</s>", [](GgufTokenRole& role) { role.rstrip = true; });
      for (const char* text : {"<unk>", "<s>", "<|endoftext|>"}) {
        set(text, [](GgufTokenRole& role) { role.rstrip = false; });
      }
    } else if (names(name, {"modern-bert"})) {
      set("[MASK]", left);
    }
  }

  const GgufVocabulary& file_;
  std::vector<GgufTokenRole> roles_;
  std::unordered_map<std::string_view, std::size_t> by_text_;
};

}  // namespace

std::vector<GgufTokenRole> gguf_token_roles(const GgufVocabulary& vocabulary) { return Roles(vocabulary).take(); }

}  // namespace tern::tokenizer
