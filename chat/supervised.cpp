#include "chat/supervised.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "base/strings.h"
#include "chat/dialogue.h"
#include "chat/unlearned.h"
#include "jinja/unicode.h"

namespace tern::chat {
namespace {

using jinja::Value;

// Stand in for a message's content to find where a template writes it: private-use characters that no text has.
constexpr const char* probe_a = "\xEE\xA3\xBE";  // U+E8FE
constexpr const char* probe_b = "\xEE\xA3\xBF";  // U+E8FF

std::string text_of(const Value& message, std::string_view key) {
  const Value* found = message.dict().get(key);
  return found && found->is_text() ? found->text() : std::string();
}
std::string role_of(const Value& message) { return text_of(message, "role"); }

// A message's own `loss`, none where it has none.
std::optional<float> own_loss(const Value& message, std::size_t index) {
  const Value* loss = message.dict().get("loss");
  if (!loss || loss->is_none()) return std::nullopt;
  const std::string where = cat("messages[", index, "].loss");
  const double weight = loss->is_number() ? loss->real() : -1;
  if (!(weight >= 0) || !std::isfinite(weight)) {
    throw Failure(data_error(where, "true, false or a weight of at least 0", loss->repr(),
                             "write true, false or a number as 0.5"));
  }
  if (role_of(message) != "assistant") {
    if (weight == 0) return std::nullopt;
    throw Failure(data_error(where, "a weight at an assistant's message", cat("one at role \"", role_of(message), "\""),
                             "only what the assistant says is learned"));
  }
  return static_cast<float>(weight);
}

Value without_loss(const Value& message) {
  if (!message.dict().get("loss")) return message;
  auto members = message.dict().entries;
  std::erase_if(members, [](const auto& member) { return member.first.text() == "loss"; });
  return jinja::make_dict(std::move(members));
}

Value message_of(const char* role, std::string content) {
  return make_message({{Value("role"), Value(role)}, {Value("content"), Value(std::move(content))}});
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto at =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  auto size = static_cast<std::size_t>(at.first - a.begin());
  // Two characters may share their first bytes: go back to where the differing one begins.
  while (size > 0 && size < a.size() && (static_cast<unsigned char>(a[size]) & 0xC0U) == 0x80) --size;
  return size;
}

class Renderer {
 public:
  Renderer(const ChatTemplate& chat_template, const ChatInput& input, const SupervisedOptions& options)
      : template_(chat_template), input_(input), dialogue_(read_dialogue(input).value()) {
    jinja::Values& messages = dialogue_.messages;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      losses_.push_back(own_loss(messages[i], i));
      messages[i] = without_loss(messages[i]);
    }
    const bool has_system = !messages.empty() && role_of(messages.front()) == "system";
    if (!options.system.empty() && !has_system) {
      messages.insert(messages.begin(), message_of("system", options.system));
      losses_.insert(losses_.begin(), std::nullopt);
    }
    weigh(options.loss_scale);
  }

  // What learning says of message i: its weight, 0 for every role but assistant.
  [[nodiscard]] float weight(std::size_t i) const { return weights_[i]; }
  [[nodiscard]] std::size_t size() const { return dialogue_.messages.size(); }
  [[nodiscard]] bool is_assistant(std::size_t i) const { return role_of(dialogue_.messages[i]) == "assistant"; }
  [[nodiscard]] bool has_own_loss(std::size_t i) const { return losses_[i].has_value(); }

  // The first `count` messages.
  [[nodiscard]] Result<std::string> prefix(std::size_t count, bool generation_prompt) const {
    return render(dialogue_, count, generation_prompt);
  }

  // Where message i's own text begins in `through`, the rendering that ends with it.
  [[nodiscard]] std::size_t begin_of(std::size_t i, const std::string& through) const {
    const auto prompt = i > 0 ? prefix(i, true) : Result<std::string>(std::string());
    if (i > 0 && prompt && through.starts_with(*prompt)) return prompt->size();
    // The prompt asks for more than the turn keeps (a thinking block that is dropped), is rendered otherwise once the
    // turn is there, or cannot be rendered alone. The turn's content lies where two contents make a difference.
    const std::string a = probed(i, probe_a);
    const std::size_t content = common_prefix(a, probed(i, probe_b));
    std::size_t begin = content;
    if (const auto base = prefix(i, false); i > 0 && prompt && base && prompt->starts_with(*base)) {
      if (const auto after = behind_header(a, content, prompt->substr(base->size()), i)) {
        begin = *after;
      } else if (a.starts_with(*base)) {
        begin = std::min(content, std::max(base->size(), common_prefix(*prompt, a)));
      }
    }
    return std::min(begin, common_prefix(a, through));
  }

  // What message i answers, and what the template writes behind its text.
  [[nodiscard]] std::string query_of(std::size_t i) const {
    return i == 0 ? std::string() : text_of(dialogue_.messages[i - 1], "content");
  }
  [[nodiscard]] std::string ending_of(std::size_t i) const {
    const std::string text = probed(i, probe_a);
    const std::size_t at = text.rfind(probe_a);
    return at == std::string::npos ? std::string() : text.substr(at + std::string_view(probe_a).size());
  }

 private:
  // The rendering up to and with message i, `content` in the place of what it says.
  [[nodiscard]] std::string probed(std::size_t i, const char* content) const {
    const auto end = dialogue_.messages.begin() + static_cast<std::ptrdiff_t>(i);
    Dialogue part{{dialogue_.messages.begin(), end}, dialogue_.variables};
    part.messages.push_back(message_of("assistant", content));
    return render(part, i + 1, false).value();
  }

  // Behind the last generation prompt before the content, none where the message before lies between.
  [[nodiscard]] std::optional<std::size_t> behind_header(const std::string& text, std::size_t content,
                                                         const std::string& header, std::size_t i) const {
    if (header.empty() || content < header.size()) return std::nullopt;
    const std::size_t at = text.rfind(header, content - header.size());
    if (at == std::string::npos) return std::nullopt;
    const std::size_t begin = at + header.size();
    const std::string before = text_of(dialogue_.messages[i - 1], "content");
    const std::string_view said = jinja::strip(before, true, true);
    const std::string_view between = std::string_view(text).substr(begin, content - begin);
    if (!said.empty() && between.find(said) != std::string_view::npos) return std::nullopt;
    return begin;
  }

  void weigh(LossScale scale) {
    std::size_t last_user = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      if (role_of(dialogue_.messages[i]) == "user") last_user = i;
    }
    for (std::size_t i = 0; i < size(); ++i) {
      const bool learned = is_assistant(i) && (scale != LossScale::last_round || i >= last_user);
      weights_.push_back(losses_[i].value_or(learned ? 1.0F : 0.0F));
    }
  }

  [[nodiscard]] Result<std::string> render(const Dialogue& dialogue, std::size_t count, bool generation_prompt) const {
    ChatInput input = input_;
    input.add_generation_prompt = generation_prompt;
    return template_.render_prefix(dialogue, count, input);
  }

  const ChatTemplate& template_;
  const ChatInput& input_;
  Dialogue dialogue_;
  std::vector<std::optional<float>> losses_;
  std::vector<float> weights_;
};

struct Turn {
  std::string through;  // the rendering up to and with this message
  SupervisedSpan span;
  std::vector<WeightedPart> parts;  // of the span's text, from its begin; none: it counts as a whole
};

void add_span(SupervisedText& text, SupervisedSpan span) {
  if (!text.spans.empty()) span.begin = std::max(span.begin, text.spans.back().end);
  if (span.begin < span.end) text.spans.push_back(span);
}

void add_turn(SupervisedText& text, const Turn& turn) {
  if (turn.parts.empty()) return add_span(text, turn.span);
  for (const WeightedPart& part : turn.parts) {
    const float weight = turn.span.weight * part.weight;
    if (weight > 0) add_span(text, {turn.span.begin + part.begin, turn.span.begin + part.end, weight});
  }
}

// The parts of turn i by the rules, with the template's ending behind them.
std::vector<WeightedPart> parts_of(const Renderer& renderer, std::size_t i, const Turn& turn, const LossRules& rules) {
  if (rules.empty()) return {};
  const std::string_view text = std::string_view(turn.through).substr(turn.span.begin, turn.span.end - turn.span.begin);
  const std::string ending = renderer.ending_of(i);
  const std::size_t said = text.size() - (text.ends_with(ending) ? ending.size() : 0);
  std::vector<WeightedPart> parts = rules.parts(renderer.query_of(i), text.substr(0, said));
  parts.push_back({said, text.size(), 1});
  return parts;
}

// loss_scale all: everything counts 1, but an assistant's turn with a `loss` of its own.
SupervisedText whole(const std::string& text, const std::vector<Turn>& turns) {
  SupervisedText out{text, {}};
  std::size_t at = 0;
  for (const Turn& turn : turns) {
    add_span(out, {at, turn.span.begin, 1});
    if (turn.span.weight > 0) add_span(out, turn.span);
    at = turn.span.end;
  }
  add_span(out, {at, text.size(), 1});
  return out;
}

Supervised<SupervisedText> supervise(const ChatTemplate& chat_template, const ChatInput& input,
                                     const SupervisedOptions& options) {
  if (input.add_generation_prompt || input.continue_final_message) {
    throw std::logic_error("a conversation to be continued has no supervised text");
  }
  const Renderer renderer(chat_template, input, options);
  auto full = renderer.prefix(renderer.size(), false);
  if (!full) throw Failure(full.error());
  const bool all = options.loss_scale == LossScale::all;
  std::vector<Turn> turns;
  bool nested = true;
  for (std::size_t i = 0; i < renderer.size(); ++i) {
    const bool wanted = all ? renderer.has_own_loss(i) : renderer.weight(i) > 0;
    if (!wanted || !renderer.is_assistant(i)) continue;
    auto through = i + 1 == renderer.size() ? full : renderer.prefix(i + 1, false);
    if (!through) throw Failure(through.error());
    const std::size_t begin = renderer.begin_of(i, *through);
    nested = nested && full->starts_with(*through);
    turns.push_back({std::move(*through), {begin, 0, renderer.weight(i)}, {}});
    turns.back().span.end = turns.back().through.size();
    if (!all) turns.back().parts = parts_of(renderer, i, turns.back(), options.rules);
  }
  Supervised<SupervisedText> out;
  if (all) {
    if (!nested) {
      throw Failure(data_error(chat_template.where(),
                               "a template that renders a turn alike as the conversation goes on", "one that does not",
                               "leave `loss` out of the messages, or use loss_scale default"));
    }
    out.samples.push_back(whole(*full, turns));
  } else if (nested) {
    out.samples.push_back({std::move(*full), {}});
    for (const Turn& turn : turns) add_turn(out.samples.back(), turn);
  } else {
    out.note = cat(chat_template.where(),
                   ": a turn is rendered otherwise once the conversation goes on, so each "
                   "assistant turn becomes a sample of its own");
    for (Turn& turn : turns) {
      out.samples.push_back({std::move(turn.through), {}});
      add_turn(out.samples.back(), turn);
    }
  }
  return out;
}

}  // namespace

Result<LossScale> parse_loss_scale(const std::string& name) {
  if (name == "default") return LossScale::every_turn;
  if (name == "last_round") return LossScale::last_round;
  if (name == "all") return LossScale::all;
  return usage_error(cat("--loss_scale \"", name, "\" is unknown"), "choose default, last_round or all");
}

Result<LossWeighing> parse_loss_weighing(const std::string& chain) {
  return catching([&] {
    LossWeighing out;
    const std::size_t plus = chain.find('+');
    const std::string first = chain.substr(0, plus);
    const auto base = parse_loss_scale(first);
    if (base) out.base = *base;
    std::string rules = chain;
    if (base) rules = plus == std::string::npos ? std::string() : chain.substr(plus + 1);
    if (base && plus == std::string::npos) return out;
    if (out.base == LossScale::all) {
      throw Failure(usage_error(cat("--loss_scale \"", chain, "\" has rules behind all, and rules weigh answers alone"),
                                cat("give default+", rules)));
    }
    out.rules = LossRules::parse(rules).value();
    return out;
  });
}

Result<Supervised<SupervisedText>> supervised_text(const ChatTemplate& chat_template, const ChatInput& input,
                                                   const SupervisedOptions& options) {
  return catching([&] {
    auto out = supervise(chat_template, input, options);
    for (SupervisedText& sample : out.samples)
      sample = without_marks(std::move(sample), options.loss_scale == LossScale::all);
    return out;
  });
}

std::vector<float> token_weights(const SupervisedText& text,
                                 const std::vector<std::pair<std::uint32_t, std::uint32_t>>& offsets) {
  // Spans in code points, counted in one pass over the text.
  struct Span {
    std::uint32_t begin, end;
    float weight;
  };
  std::vector<Span> spans;
  std::size_t byte = 0;
  std::uint32_t point = 0;
  const auto points_until = [&](std::size_t end) {
    for (std::size_t size = 0; byte < end; byte += size, ++point) (void)jinja::code_point_at(text.text, byte, size);
    return point;
  };
  for (const SupervisedSpan& span : text.spans) {
    const std::uint32_t begin = points_until(span.begin);
    spans.push_back({begin, points_until(span.end), span.weight});
  }
  std::vector<float> weights(offsets.size(), 0);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::uint32_t begin = offsets[i].first;
    const auto after = std::upper_bound(spans.begin(), spans.end(), begin,
                                        [](std::uint32_t at, const Span& span) { return at < span.begin; });
    if (after != spans.begin() && begin < std::prev(after)->end) weights[i] = std::prev(after)->weight;
  }
  return weights;
}

Result<Supervised<SupervisedSample>> supervised_samples(const ChatTemplate& chat_template,
                                                        const tokenizer::Tokenizer& tokenizer, const ChatInput& input,
                                                        const SupervisedOptions& options) {
  auto texts = supervised_text(chat_template, input, options);
  if (!texts) return texts.error();
  Supervised<SupervisedSample> out;
  out.note = std::move(texts->note);
  for (const SupervisedText& text : texts->samples) {
    tokenizer::Encoding encoding = tokenizer.encode_with_offsets(text.text, false);
    SupervisedSample sample;
    sample.weights = token_weights(text, encoding.offsets);
    sample.ids = std::move(encoding.ids);
    out.samples.push_back(std::move(sample));
  }
  return out;
}

}  // namespace tern::chat
