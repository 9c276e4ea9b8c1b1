#include "chat/answer_parser.h"

#include <algorithm>

#include "base/strings.h"
#include "chat/answer_formats/harmony.h"
#include "chat/answer_formats/thoughts.h"

namespace tern::chat {
namespace {

// The call format of a name, which may be another one's for it.
std::optional<CallFormat> call_format(std::string_view name, const ToolTypes& types) {
  if (name == "granite4") name = "hermes";
  if (name == "llama4_json") name = "llama3_json";
  std::optional<CallFormat> format = json_format(name);
  if (!format) format = named_format(name);
  if (!format) format = xml_format(name, types);
  return format ? std::move(format) : python_format(name);
}

class StagedParser : public AnswerParser {
 public:
  explicit StagedParser(const ParserOptions& options)
      : types_(options.tools_json),
        parts_(options.parallel_calls, options.whole_calls),
        thoughts_(thought_format(options.formats.reasoning), options.prompt_tail),
        calls_(options.tools_json.empty() ? std::nullopt : call_format(options.formats.tool_call, types_)) {}

  [[nodiscard]] std::vector<AnswerPart> push(std::string_view text) override {
    for (const char c : text) thoughts_.feed(c, parts_, calls_);
    return parts_.take();
  }
  [[nodiscard]] std::vector<AnswerPart> finish() override {
    thoughts_.finish(parts_, calls_);
    return parts_.take();
  }

 private:
  ToolTypes types_;
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
  static const std::vector<std::string> names = {
      "deepseek_r1", "deepseek_v3", "ernie45", "glm45",         "granite", "holo2",    "hunyuan_a13b", "kimi_k2",
      "minimax_m2",  "mistral",     "olmo3",   "openai_gptoss", "qwen3",   "seed_oss", "nemotron_v3",  "step3"};
  return names;
}

const std::vector<std::string>& tool_call_formats() {
  static const std::vector<std::string> names = {
      "deepseek_v3",     "deepseek_v31", "deepseek_v32", "glm45",    "glm47", "granite",     "granite4",
      "hermes",          "internlm",     "jamba",        "kimi_k2",  "lfm2",  "llama3_json", "llama4_json",
      "llama4_pythonic", "minimax",      "minimax_m2",   "mistral",  "olmo3", "openai",      "phi4_mini_json",
      "pythonic",        "qwen3_coder",  "qwen3_xml",    "seed_oss", "xlam"};
  return names;
}

// A template's markers, the surest first: what one family's say may be part of another's.
AnswerFormats formats_of_template(std::string_view chat_template) {
  const auto says = [&](std::string_view marker) { return chat_template.find(marker) != std::string_view::npos; };
  struct Sign {
    std::string_view marker, format;
  };
  constexpr Sign kCalls[] = {
      {"<|channel|>commentary", "openai"},
      {"｜DSML｜", "deepseek_v32"},
      {"<|tool_call_argument_begin|>", "kimi_k2"},
      {"<seed:tool_call>", "seed_oss"},
      {"<minimax:tool_call>", "minimax_m2"},
      {"<arg_key>", "glm45"},
      {"<function=", "qwen3_coder"},
      {"[TOOL_CALLS]", "mistral"},
      {"<|tool_call_start|>", "lfm2"},
      {"<|action_start|>", "internlm"},
      {"<tool_calls>[", "jamba"},
      {"<tool_calls>", "minimax"},
      {"<function_calls>", "olmo3"},
      {"<|tool_call|>", "granite"},
      {"<tool_call>", "hermes"},
      {"<|tool|>", "phi4_mini_json"},
      {"<|python_start|>", "llama4_pythonic"},
      {"<|python_tag|>", "llama3_json"},
      {"{\"name\": function name, \"parameters\":", "llama3_json"},
      {"\"parameters\": dictionary of argument name", "llama3_json"},
  };
  constexpr Sign kThoughts[] = {
      {"<|channel|>analysis", "openai_gptoss"},   {"[THINK]", "mistral"},    {"<seed:think>", "seed_oss"},
      {"Here is my thought process:", "granite"}, {"<response>", "granite"}, {"</think>", "qwen3"},
  };
  AnswerFormats formats;
  if (says("<｜tool▁sep｜>")) formats.tool_call = says("```json") ? "deepseek_v3" : "deepseek_v31";
  for (const Sign& sign : kCalls) {
    if (formats.tool_call.empty() && says(sign.marker)) formats.tool_call = sign.format;
  }
  for (const Sign& sign : kThoughts) {
    if (formats.reasoning.empty() && says(sign.marker)) formats.reasoning = sign.format;
  }
  if (formats.reasoning != "qwen3") return formats;
  if (says("<｜Assistant｜>"))
    formats.reasoning = says("thinking is defined") || says("｜DSML｜") ? "deepseek_v3" : "deepseek_r1";
  for (const char* family : {"glm45", "kimi_k2", "minimax_m2"}) {
    if (formats.tool_call == family) formats.reasoning = family;
  }
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
  if (formats.reasoning == "openai_gptoss" || formats.tool_call == "openai") {
    return std::unique_ptr<AnswerParser>(std::make_unique<HarmonyParser>(options));
  }
  return std::unique_ptr<AnswerParser>(std::make_unique<StagedParser>(options));
}

bool keeps_special_tokens(const AnswerFormats& formats) {
  if (formats.reasoning == "openai_gptoss" || formats.tool_call == "openai") return true;
  const ToolTypes types("");
  const std::optional<CallFormat> calls = call_format(formats.tool_call, types);
  const std::optional<ThoughtFormat> thoughts = thought_format(formats.reasoning);
  return (calls && calls->special) || (thoughts && thoughts->special);
}

}  // namespace tern::chat
