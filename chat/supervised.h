// Which tokens of a conversation are learned: the mask made by rendering the chat template prefix by prefix.
//
// Supervised is what an assistant's turn adds to the rendered prompt (the messages before it, with the generation
// prompt), the end token and what follows it included. Where a shorter conversation's rendering is not a prefix of the
// whole one (Qwen3 drops earlier thinking), each turn becomes a sample of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "chat/loss_rules.h"
#include "tokenizer/tokenizer.h"

namespace tern::chat {

enum class LossScale {
  every_turn,  // "default": each assistant message
  last_round,  // assistant messages behind the last user message
  all,         // every token of the text
};
// Fails with ErrorKind::usage for a name other than default, last_round and all.
[[nodiscard]] Result<LossScale> parse_loss_scale(const std::string& name);

// What --loss_scale says: whose words are learned, and how parts of an answer count.
struct LossWeighing {
  LossScale base = LossScale::every_turn;
  LossRules rules;
};
// `react`, `last_round+hermes+ignore_empty_think`: a name of the above (default where there is none) and rules behind
// it. Errors: as LossRules::parse; (usage) rules behind `all`, as they weigh answers alone.
[[nodiscard]] Result<LossWeighing> parse_loss_weighing(const std::string& chain);

struct SupervisedOptions {
  LossScale loss_scale = LossScale::every_turn;
  std::string system;  // put before conversations that have no system message of their own; "": none
  LossRules rules;     // of what an assistant says; what the template writes behind it counts 1
};

struct SupervisedSpan {
  std::size_t begin = 0, end = 0;  // bytes of the text
  float weight = 1;
};

struct SupervisedText {
  std::string text;
  std::vector<SupervisedSpan> spans;  // ascending, disjoint
};

struct SupervisedSample {
  std::vector<tokenizer::TokenId> ids;  // [tokens]
  std::vector<float> weights;           // [tokens] of the token as a target; 0: not learned
};

template <typename Sample>
struct Supervised {
  std::vector<Sample> samples;  // one, or one an assistant turn
  std::string note;             // says why, where turns were split; else ""
};

// The rendered conversation and its supervised spans. `input.messages` may carry `loss` (bool or a number >= 0) in
// assistant messages, which decides over loss_scale; it is not shown to the template. add_generation_prompt and
// continue_final_message must be off. Fails with ErrorKind::data for a message that cannot be rendered, a `loss` that
// is no weight or stands at another role than assistant.
[[nodiscard]] Result<Supervised<SupervisedText>> supervised_text(const ChatTemplate& chat_template,
                                                                 const ChatInput& input,
                                                                 const SupervisedOptions& options);

// The same as tokens: ids are those of the whole text encoded at once (special tokens recognised, none added). A token
// is supervised where its first character lies in a span: one that straddles a span's begin is not, one that straddles
// its end is.
[[nodiscard]] Result<Supervised<SupervisedSample>> supervised_samples(const ChatTemplate& chat_template,
                                                                      const tokenizer::Tokenizer& tokenizer,
                                                                      const ChatInput& input,
                                                                      const SupervisedOptions& options);

// The weights of `offsets` ([begin, end) in code points of text, as Tokenizer gives them).
[[nodiscard]] std::vector<float> token_weights(const SupervisedText& text,
                                               const std::vector<std::pair<std::uint32_t, std::uint32_t>>& offsets);

}  // namespace tern::chat
