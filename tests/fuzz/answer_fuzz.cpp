// Any text as an answer, in any format and cuts: the parts are the same as of the text in one go, and a call that comes
// whole has one JSON object as its arguments.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/json_stream.h"
#include "chat/answer_parser.h"

namespace {

using namespace tern::chat;

constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": )"
    R"("string"}, "b": {"type": "integer"}, "c": {"type": ["object", "null"]}, "d": {"type": "array"}}}}}])";

// Parts that lie side by side and are of one kind, joined.
void join(std::vector<AnswerPart>& all, std::vector<AnswerPart> parts) {
  for (AnswerPart& part : parts) {
    const bool goes_on = !all.empty() && part.kind != AnswerPart::Kind::call && all.back().kind == part.kind;
    if (goes_on && all.back().call == part.call) {
      all.back().text += part.text;
    } else {
      all.push_back(std::move(part));
    }
  }
}

std::vector<AnswerPart> read(const ParserOptions& options, std::string_view text, std::size_t piece) {
  const auto parser = make_answer_parser(options).value();
  std::vector<AnswerPart> all;
  for (std::size_t at = 0; at < text.size(); at += piece) join(all, parser->push(text.substr(at, piece)));
  join(all, parser->finish());
  return all;
}

bool is_object(std::string_view text) {
  JsonValue value;
  for (const char c : text) {
    if (const Fed fed = value.feed(c); fed == Fed::broken || fed == Fed::ended) return false;
  }
  return value.whole() && text.starts_with('{');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  ParserOptions options;
  options.formats.tool_call = tool_call_formats()[data[0] % tool_call_formats().size()];
  options.formats.reasoning = reasoning_formats()[data[1] % reasoning_formats().size()];
  if (data[1] >= 128 && options.formats.tool_call != "openai") options.formats.reasoning.clear();
  options.tools_json = kTools;
  options.parallel_calls = data[0] < 128;
  for (const bool whole : {false, true}) {
    options.whole_calls = whole;
    const std::vector<AnswerPart> parts = read(options, text, text.size() + 1);
    if (read(options, text, 1) != parts || read(options, text, 3) != parts) std::abort();
    for (const AnswerPart& part : parts) {
      if (whole && part.kind == AnswerPart::Kind::arguments && !is_object(part.text)) std::abort();
    }
  }
  return 0;
}
