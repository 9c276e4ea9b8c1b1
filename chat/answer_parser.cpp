#include "chat/answer_parser.h"

#include <algorithm>

#include "base/strings.h"
#include "chat/answer_formats/thoughts.h"

namespace tern::chat {
namespace {

class StagedParser : public AnswerParser {
 public:
  StagedParser(const ParserOptions& options, std::optional<CallFormat> calls)
      : parts_(options.parallel_calls, options.whole_calls),
        thoughts_(thought_format(options.formats.reasoning), options.prompt_tail),
        calls_(std::move(calls)) {}

  [[nodiscard]] std::vector<AnswerPart> push(std::string_view text) override {
    for (const char c : text) thoughts_.feed(c, parts_, calls_);
    return parts_.take();
  }
  [[nodiscard]] std::vector<AnswerPart> finish() override {
    thoughts_.finish(parts_, calls_);
    return parts_.take();
  }

 private:
  AnswerParts parts_;
  ThoughtStage thoughts_;
  CallStage calls_;
};

Error no_such(std::string_view what, const std::string& name, const std::vector<std::string>& names) {
  return usage_error(cat("there is no ", what, " format \"", name, "\""), cat("name one of ", join(names, ", ")));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return name.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::vector<std::string>& reasoning_formats() {
  static const std::vector<std::string> names = {"qwen3", "deepseek_r1"};
  return names;
}

const std::vector<std::string>& tool_call_formats() {
  static const std::vector<std::string> names = {"hermes"};
  return names;
}

AnswerFormats formats_of_template(std::string_view chat_template) {
  const auto says = [&](std::string_view marker) { return chat_template.find(marker) != std::string_view::npos; };
  AnswerFormats formats;
  if (says("<tool_call>") && says("\"arguments\": ")) formats.tool_call = "hermes";
  if (says("<think>")) formats.reasoning = "qwen3";
  return formats;
}

Result<std::unique_ptr<AnswerParser>> make_answer_parser(const ParserOptions& options) {
  const AnswerFormats& formats = options.formats;
  if (!has(reasoning_formats(), formats.reasoning)) {
    return no_such("reasoning", formats.reasoning, reasoning_formats());
  }
  if (!has(tool_call_formats(), formats.tool_call)) {
    return no_such("tool call", formats.tool_call, tool_call_formats());
  }
  std::optional<CallFormat> calls;
  if (!options.tools_json.empty() && !formats.tool_call.empty()) calls = json_format(formats.tool_call);
  return std::unique_ptr<AnswerParser>(std::make_unique<StagedParser>(options, std::move(calls)));
}

bool keeps_special_tokens(const AnswerFormats& formats) {
  return !formats.tool_call.empty() || !formats.reasoning.empty();
}

}  // namespace tern::chat
