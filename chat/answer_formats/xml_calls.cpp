// Calls whose arguments stand between tags, as texts that a tool's schema gives types to.
#include <set>

#include "base/strings.h"
#include "chat/answer_formats/call_reader.h"

namespace tern::chat {
namespace {

constexpr std::size_t kLongestName = 512;  // what goes on without the tag that ends it is no name

struct XmlLayout {
  std::string function, name_end, function_end;  // function: "" where the place's own marker begins it
  std::string parameter, key_end, value, value_end;
  std::string end;          // of the place
  bool guess = false;       // a value without a type is JSON where it can be
  bool attributes = false;  // the key's tag goes on: name="KEY" string="true">
  bool trims = true;        // one line break around values
};

class XmlCalls : public CallReader {
 public:
  XmlCalls(XmlLayout layout, const ToolTypes& types) : layout_(std::move(layout)), types_(types) {}

  void start(std::string_view marker) override {
    calls_ = 0;
    enter(layout_.function.empty() || marker == layout_.function ? At::name : At::place);
  }

  [[nodiscard]] Fed feed(char c, AnswerParts& parts) override {
    switch (at_) {
      case At::place:
      case At::function:
      case At::gap:
        return tag(c, parts);
      case At::name:
        return name(c, parts);
      case At::key: {
        const int found = scanner_.push(c, text_);
        if (found < 0) return text_.size() > kLongestName ? Fed::broken : Fed::more;
        return key(parts);
      }
      case At::value:
        return value(c, parts);
    }
    return Fed::broken;
  }

  // A function that is whole needs no end of its place.
  [[nodiscard]] bool finish(AnswerParts& /*parts*/) override { return at_ == At::place && calls_ > 0; }

 private:
  enum class At { place, name, function, key, gap, value };

  void enter(At at) {
    at_ = at;
    text_.clear();
    switch (at) {
      case At::place:
        choice_ = Choice({layout_.end, layout_.function});
        break;
      case At::function:
        choice_ = Choice({layout_.parameter, layout_.function_end});
        break;
      case At::gap:
        choice_ = Choice({layout_.value});
        break;
      case At::name:
        keys_.clear();
        scanner_ =
            MarkerScanner(layout_.function.empty() ? std::vector<std::string>{layout_.parameter, layout_.function_end}
                                                   : std::vector<std::string>{layout_.name_end});
        break;
      case At::key:
        scanner_ = MarkerScanner({layout_.key_end});
        break;
      case At::value:
        first_ = true;
        scanner_ = layout_.trims ? MarkerScanner({layout_.value_end, "\n" + layout_.value_end})
                                 : MarkerScanner({layout_.value_end});
        break;
    }
  }

  [[nodiscard]] Fed tag(char c, AnswerParts& parts) {
    std::size_t index = 0;
    const Fed fed = choice_.feed(c, index);
    if (fed != Fed::done) return fed;
    if (at_ == At::gap) {
      enter_value(parts);
    } else if (at_ == At::function) {
      if (index == 1) return function_ended(parts);
      enter(At::key);
    } else {
      if (index == 0) return Fed::done;
      enter(At::name);
    }
    return Fed::more;
  }

  [[nodiscard]] Fed name(char c, AnswerParts& parts) {
    const int found = scanner_.push(c, text_);
    if (found < 0) return text_.size() > kLongestName || c == '{' ? Fed::broken : Fed::more;
    tool_ = trim(text_);
    if (tool_.empty()) return Fed::broken;
    parts.name(tool_);
    if (!layout_.function.empty()) {
      enter(At::function);
      return Fed::more;
    }
    if (found == 1) return function_ended(parts);
    enter(At::key);
    return Fed::more;
  }

  [[nodiscard]] Fed key(AnswerParts& parts) {
    key_ = text_;
    typed_ = false;
    if (layout_.attributes) {
      const std::size_t quote = key_.find('"');
      if (quote == std::string::npos) return Fed::broken;
      typed_ = key_.find("string=\"false\"", quote) != std::string::npos;
      key_.resize(quote);
    }
    key_ = trim(key_);
    if (layout_.value.empty()) {
      enter_value(parts);
    } else {
      enter(At::gap);
    }
    return Fed::more;
  }

  // Texts are given as they come; what may be of another type, when it has ended.
  void enter_value(AnswerParts& parts) {
    repeated_ = keys_.contains(key_);
    if (!repeated_) parts.arguments(cat(keys_.empty() ? "{" : ", ", json_quoted(key_), ": "));
    if (!repeated_) keys_.insert(key_);
    streams_ = !repeated_ && types_.only_text(tool_, key_);
    if (streams_) parts.arguments("\"");
    enter(At::value);
  }

  [[nodiscard]] Fed value(char c, AnswerParts& parts) {
    const bool skip = first_ && layout_.trims && c == '\n';
    first_ = false;
    if (skip) return Fed::more;
    const int found = scanner_.push(c, text_);
    if (streams_) {
      std::string escaped;
      for (const char one : text_) append_escaped(escaped, one);
      parts.arguments(escaped);
      text_.clear();
    }
    if (found < 0) return Fed::more;
    if (!repeated_) parts.arguments(streams_ ? "\"" : types_.json(tool_, key_, text_, layout_.guess || typed_));
    enter(At::function);
    return Fed::more;
  }

  [[nodiscard]] Fed function_ended(AnswerParts& parts) {
    parts.arguments(keys_.empty() ? "{}" : "}");
    parts.call_whole();
    ++calls_;
    if (layout_.function.empty()) return Fed::done;
    enter(At::place);
    return Fed::more;
  }

  XmlLayout layout_;
  const ToolTypes& types_;
  At at_ = At::place;
  bool first_ = false, streams_ = false;
  bool typed_ = false;     // the tag says that the value is no text
  bool repeated_ = false;  // the first value of a key is its only one: it may have been given already
  std::set<std::string> keys_;
  int calls_ = 0;
  Choice choice_{{}};
  MarkerScanner scanner_{{}};
  std::string text_, tool_, key_;
};

XmlLayout invokes(const std::string& dsml, std::string end, bool attributes) {
  XmlLayout layout;
  layout.function = "<" + dsml + "invoke name=\"";
  layout.name_end = "\">";
  layout.function_end = "</" + dsml + "invoke>";
  layout.parameter = "<" + dsml + "parameter name=\"";
  layout.key_end = attributes ? ">" : "\">";
  layout.value_end = "</" + dsml + "parameter>";
  layout.end = std::move(end);
  layout.attributes = attributes;
  return layout;
}

XmlLayout functions(std::string end) {
  return {"<function=", ">", "</function>", "<parameter=", ">", "", "</parameter>", std::move(end)};
}

}  // namespace

std::optional<CallFormat> xml_format(std::string_view name, const ToolTypes& types) {
  CallFormat format;
  XmlLayout layout;
  format.special = true;
  if (name == "qwen3_coder" || name == "qwen3_xml") {
    format.begins = {"<tool_call>", "<function="};  // models leave out the first
    format.dropped = {"</tool_call>"};
    layout = functions("</tool_call>");
  } else if (name == "seed_oss") {
    format.begins = {"<seed:tool_call>"};
    layout = functions("</seed:tool_call>");
  } else if (name == "minimax_m2") {
    format.begins = {"<minimax:tool_call>"};
    layout = invokes("", "</minimax:tool_call>", false);
  } else if (name == "deepseek_v32") {
    format.begins = {"<｜DSML｜function_calls>"};
    layout = invokes("｜DSML｜", "</｜DSML｜function_calls>", true);
    layout.trims = false;
  } else if (name == "glm45" || name == "glm47") {
    format.begins = {"<tool_call>"};
    layout = {"", "", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "", true};
    layout.trims = false;
  } else {
    return std::nullopt;
  }
  format.reader = std::make_unique<XmlCalls>(std::move(layout), types);
  return format;
}

}  // namespace tern::chat
