// Calls as a name, a marker and the arguments: DeepSeek, Kimi, Mistral.
#include <algorithm>

#include "base/strings.h"
#include "chat/answer_formats/json_calls.h"

namespace tern::chat {
namespace {

constexpr std::size_t kLongestName = 512;  // what goes on without the marker that ends it is no name

struct NamedLayout {
  std::vector<std::string> name_ends;
  std::vector<std::string> ends;  // behind the arguments; the longest first
  std::string fence = {};         // what may stand before the arguments
  bool kimi = false;              // the name stands in the call's id: functions.NAME:NUMBER
};

class NamedCalls : public CallReader {
 public:
  explicit NamedCalls(NamedLayout layout)
      : layout_(std::move(layout)), name_(layout_.name_ends), end_(layout_.ends), fence_({layout_.fence}) {}

  void start(std::string_view /*marker*/) override {
    at_ = At::name;
    name_ = MarkerScanner(layout_.name_ends);
    end_ = Choice(layout_.ends);
    fence_ = Choice({layout_.fence});
    text_.clear();
    arguments_ = {};
  }

  [[nodiscard]] Fed feed(char c, AnswerParts& parts) override {
    switch (at_) {
      case At::name:
        if (name_.push(c, text_) < 0) return text_.size() > kLongestName ? Fed::broken : Fed::more;
        at_ = layout_.fence.empty() ? At::arguments : At::before;
        return named(parts);
      case At::before:
        if (is_blank(c)) return Fed::more;
        at_ = c == '{' ? At::arguments : At::fence;
        return feed(c, parts);
      case At::fence: {
        std::size_t index = 0;
        const Fed fed = fence_.feed(c, index);
        if (fed != Fed::done) return fed;
        at_ = At::arguments;
        return Fed::more;
      }
      case At::arguments: {
        text_.clear();
        const Fed fed = arguments_.feed(c, text_);
        if (fed == Fed::broken) return fed;
        parts.arguments(text_);
        if (fed == Fed::more) return fed;
        parts.call_whole();
        at_ = At::after;
        return layout_.ends.empty() ? Fed::done : Fed::more;
      }
      case At::after: {
        std::size_t index = 0;
        const Fed fed = end_.feed(c, index);
        // "```" closes the fence, and the call's own end follows.
        return fed == Fed::done && layout_.ends[index] == "```" ? Fed::more : fed;
      }
    }
    return Fed::broken;
  }

  [[nodiscard]] bool finish(AnswerParts& /*parts*/) override { return at_ == At::after; }

 private:
  [[nodiscard]] Fed named(AnswerParts& parts) {
    std::string id;
    std::string name(trim(text_));
    if (layout_.kimi) {
      id = name;
      name = name.substr(0, name.rfind(':'));
      if (name.starts_with("functions.")) name.erase(0, 10);
    }
    if (name.empty()) return Fed::broken;
    parts.name(name, id);
    return Fed::more;
  }

  enum class At { name, before, fence, arguments, after };
  NamedLayout layout_;
  At at_ = At::name;
  MarkerScanner name_;
  Choice end_, fence_;
  std::string text_;
  JsonArguments arguments_;
};

// Mistral: a JSON array up to tokenizer v7, [TOOL_CALLS]name[CALL_ID]id[ARGS]{...} since.
class MistralCalls : public CallReader {
 public:
  MistralCalls() : array_({.array = true}), mark_({"[ARGS]", "[CALL_ID]", "{"}) {}

  void start(std::string_view marker) override {
    at_ = At::start;
    array_.start(marker);
    mark_ = MarkerScanner({"[ARGS]", "[CALL_ID]", "{"});
    name_.clear(), id_.clear();
    in_id_ = false;
    arguments_ = {};
  }

  [[nodiscard]] Fed feed(char c, AnswerParts& parts) override {
    if (at_ == At::start && !is_blank(c)) at_ = c == '[' || c == '{' ? At::array : At::name;
    if (at_ == At::array) return array_.feed(c, parts);
    if (at_ == At::name) {
      std::string& text = in_id_ ? id_ : name_;
      const int mark = mark_.push(c, text);
      if (mark < 0) return text.size() > kLongestName ? Fed::broken : Fed::more;
      if (mark == 1) {
        if (in_id_) return Fed::broken;
        in_id_ = true;
        return Fed::more;
      }
      const std::string name(trim(name_));
      if (name.empty()) return Fed::broken;
      parts.name(name, std::string(trim(id_)));
      at_ = At::arguments;
      if (mark == 0) return Fed::more;
    }
    if (at_ != At::arguments) return Fed::more;
    text_.clear();
    const Fed fed = arguments_.feed(c, text_);
    if (fed == Fed::broken) return fed;
    parts.arguments(text_);
    if (fed == Fed::done) parts.call_whole();
    return fed;
  }

  [[nodiscard]] bool finish(AnswerParts& parts) override { return at_ == At::array && array_.finish(parts); }

 private:
  enum class At { start, array, name, arguments };
  At at_ = At::start;
  JsonCalls array_;
  MarkerScanner mark_;
  bool in_id_ = false;
  std::string name_, id_, text_;
  JsonArguments arguments_;
};

}  // namespace

std::optional<CallFormat> named_format(std::string_view name) {
  CallFormat format;
  format.special = true;
  if (name == "mistral") {
    format.begins = {"[TOOL_CALLS]"};
    format.reader = std::make_unique<MistralCalls>();
    return format;
  }
  NamedLayout layout;
  if (name == "kimi_k2") {
    format.begins = {"<|tool_call_begin|>"};
    format.dropped = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_begin|>",
                      "<|tool_call_section_end|>"};
    layout = {{"<|tool_call_argument_begin|>"}, {"<|tool_call_end|>"}, {}, true};
  } else if (name == "deepseek_v3") {
    format.begins = {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>"};
    format.dropped = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"};
    layout = {{"\n"}, {"```", "<｜tool▁call▁end｜>"}, "```json"};
  } else if (name == "deepseek_v31") {
    format.begins = {"<｜tool▁call▁begin｜>"};
    format.dropped = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"};
    layout = {{"<｜tool▁sep｜>"}, {"<｜tool▁call▁end｜>"}};
  } else {
    return std::nullopt;
  }
  format.reader = std::make_unique<NamedCalls>(std::move(layout));
  return format;
}

}  // namespace tern::chat
