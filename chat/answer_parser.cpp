#include "chat/answer_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "io/json.h"

namespace tern::chat {
namespace {

// The words that open and close a family's thoughts or calls. What stands in a call is JSON with a name and arguments.
struct Markers {
  std::string_view name, begin, end;
};
constexpr std::array<Markers, 6> kReasoning = {{{"qwen3", "<think>", "</think>"},
                                                {"deepseek_r1", "<think>", "</think>"},
                                                {"glm45", "<think>", "</think>"},
                                                {"granite", "Here is my thought process:", "Here is my response:"},
                                                {"mistral", "[THINK]", "[/THINK]"},
                                                {"seed_oss", "<seed:think>", "</seed:think>"}}};
constexpr std::array<Markers, 2> kToolCall = {
    {{"hermes", "<tool_call>", "</tool_call>"}, {"longcat", "<longcat_tool_call>", "</longcat_tool_call>"}}};

template <std::size_t N>
const Markers* find_markers(const std::array<Markers, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Markers& one) { return one.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <std::size_t N>
std::vector<std::string> names_of(const std::array<Markers, N>& table) {
  std::vector<std::string> names;
  for (const Markers& one : table) names.emplace_back(one.name);
  return names;
}

template <std::size_t N>
const Markers* required_markers(const std::array<Markers, N>& table, const std::string& name, const char* flag) {
  if (name.empty()) return nullptr;
  if (const Markers* found = find_markers(table, name)) return found;
  throw Failure(usage_error(cat(flag, " ", name, " is not known"), cat("choose one of ", join(names_of(table), ", "))));
}

// How many of the last characters of `text` could begin `marker`.
std::size_t possible_begin(std::string_view text, std::string_view marker) {
  for (std::size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) return n;
  }
  return 0;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

class MarkedParser : public AnswerParser {
 public:
  MarkedParser(const ParserOptions& options, const Markers* reasoning, const Markers* calls)
      : parallel_(options.parallel_calls), reasoning_(reasoning), calls_(options.tools_json.empty() ? nullptr : calls) {
    if (reasoning_ == nullptr) return;
    const std::size_t opened = options.prompt_tail.rfind(reasoning_->begin);
    const std::size_t closed = options.prompt_tail.rfind(reasoning_->end);
    if (opened != std::string::npos && (closed == std::string::npos || closed < opened)) state_ = State::thinks;
  }

  std::vector<AnswerPart> push(std::string_view text) override {
    held_ += text;
    std::vector<AnswerPart> parts;
    while (advance(parts)) {
    }
    return parts;
  }

  std::vector<AnswerPart> finish() override {
    std::vector<AnswerPart> parts;
    if (state_ == State::calls) {
      // Without the closing words a whole object is a call all the same: the end token stands in their place.
      close_call(std::exchange(held_, {}), false, parts);
    } else {
      give(std::exchange(held_, {}), parts);
    }
    return parts;
  }

 private:
  enum class State { begins, thinks, answers, calls };

  // Takes what can be taken of the held text; false where more of it has to come.
  bool advance(std::vector<AnswerPart>& parts) {
    switch (state_) {
      case State::begins:
        return begin();
      case State::thinks:
        return until(reasoning_->end, State::answers, parts);
      case State::answers:
        return calls_ != nullptr ? until(calls_->begin, State::calls, parts) : rest(parts);
      case State::calls:
        return call(parts);
    }
    return false;
  }

  // Thoughts come first or not at all.
  bool begin() {
    if (reasoning_ == nullptr) {
      state_ = State::answers;
      return true;
    }
    const std::string_view text = trimmed(held_);
    if (text.size() < reasoning_->begin.size() && reasoning_->begin.starts_with(text)) return false;
    if (text.starts_with(reasoning_->begin)) {
      held_.erase(0, held_.find(reasoning_->begin) + reasoning_->begin.size());
      state_ = State::thinks;
    } else {
      state_ = State::answers;
    }
    return true;
  }

  bool rest(std::vector<AnswerPart>& parts) {
    give(std::exchange(held_, {}), parts);
    return false;
  }

  bool until(std::string_view marker, State next, std::vector<AnswerPart>& parts) {
    const std::size_t at = held_.find(marker);
    if (at == std::string::npos) {
      // Blanks before a marker are none of the text's.
      std::size_t keep = possible_begin(held_, marker);
      while (keep < held_.size() &&
             std::string_view(" \t\r\n").find(held_[held_.size() - keep - 1]) != std::string::npos) {
        ++keep;
      }
      give(held_.substr(0, held_.size() - keep), parts);
      held_.erase(0, held_.size() - keep);
      return false;
    }
    std::string before = held_.substr(0, at);
    before.resize(before.find_last_not_of(" \t\r\n") == std::string::npos ? 0 : before.find_last_not_of(" \t\r\n") + 1);
    give(std::move(before), parts);
    held_.erase(0, at + marker.size());
    begun_ = state_ == State::answers && begun_;
    state_ = next;
    return true;
  }

  bool call(std::vector<AnswerPart>& parts) {
    const std::size_t at = held_.find(calls_->end, searched_);
    if (at == std::string::npos) {
      searched_ = held_.size() - std::min(held_.size(), calls_->end.size() - 1);
      return false;
    }
    std::string body = held_.substr(0, at);
    held_.erase(0, at + calls_->end.size());
    searched_ = 0;
    state_ = State::answers;
    close_call(std::move(body), true, parts);
    return true;
  }

  void close_call(std::string body, bool closed, std::vector<AnswerPart>& parts) {
    const auto json = io::parse_json(trimmed(body), "call");
    const io::Json* name = json ? json->find("name") : nullptr;
    if (name == nullptr || !name->is_string()) {
      give(cat(calls_->begin, body, closed ? calls_->end : std::string_view()), parts);
      return;
    }
    if (!parallel_ && num_calls_ > 0) return;
    const io::Json* arguments = json->find("arguments");
    if (arguments == nullptr) arguments = json->find("parameters");
    std::string text = arguments == nullptr ? "{}" : arguments->is_string() ? arguments->text() : arguments->dump();
    parts.push_back({.kind = AnswerPart::Kind::call, .text = name->text(), .call = num_calls_});
    parts.push_back({.kind = AnswerPart::Kind::arguments, .text = std::move(text), .call = num_calls_});
    ++num_calls_;
  }

  // Blanks before the first word of a text are left out, as they are the template's.
  void give(std::string text, std::vector<AnswerPart>& parts) {
    const bool marked = reasoning_ != nullptr || calls_ != nullptr;
    if (!begun_ && marked) text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.empty()) return;
    begun_ = true;
    const auto kind = state_ == State::thinks ? AnswerPart::Kind::reasoning : AnswerPart::Kind::content;
    parts.push_back({.kind = kind, .text = std::move(text)});
  }

  bool parallel_;
  const Markers* reasoning_;
  const Markers* calls_;
  State state_ = State::begins;
  std::string held_;
  std::size_t searched_ = 0;  // of the held text, without the closing words
  bool begun_ = false;        // the text of this state has begun
  std::int64_t num_calls_ = 0;
};

}  // namespace

const std::vector<std::string>& reasoning_formats() {
  static const std::vector<std::string> names = names_of(kReasoning);
  return names;
}
const std::vector<std::string>& tool_call_formats() {
  static const std::vector<std::string> names = names_of(kToolCall);
  return names;
}

AnswerFormats formats_of_template(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
  AnswerFormats formats;
  if (has("<seed:think>")) {
    formats.reasoning = "seed_oss";
  } else if (has("[THINK]")) {
    formats.reasoning = "mistral";
  } else if (has("</think>")) {
    formats.reasoning = "qwen3";
  }
  if (has("<longcat_tool_call>")) {
    formats.tool_call = "longcat";
  } else if (has("<tool_call>") && !has("<function=") && !has("<arg_key>")) {
    formats.tool_call = "hermes";
  }
  return formats;
}

Result<std::unique_ptr<AnswerParser>> make_answer_parser(const ParserOptions& options) {
  return catching([&]() -> std::unique_ptr<AnswerParser> {
    const Markers* reasoning = required_markers(kReasoning, options.formats.reasoning, "--reasoning_parser");
    const Markers* calls = required_markers(kToolCall, options.formats.tool_call, "--tool_call_parser");
    return std::make_unique<MarkedParser>(options, reasoning, calls);
  });
}

bool keeps_special_tokens(const AnswerFormats& formats) { return formats.reasoning == "mistral"; }

}  // namespace tern::chat
