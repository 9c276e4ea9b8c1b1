// Any bytes as a chat template: parsing and rendering end with a text or an error, within their bounds.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "chat/dialogue.h"
#include "io/json.h"
#include "jinja/eval.h"
#include "jinja/parser.h"
#include "memory_file.h"
#include "tests/support/parsed_json.h"

namespace {

using Json = tern::io::Json;

const Json& messages() {
  static const Json json = tern::test::parsed_json(R"([
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Grüße 🎉"}, {"type": "image"}]},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\n42", "reasoning_content": "hm",
     "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1.5, "y": [null, true, -7]}}}]},
    {"role": "tool", "content": "3", "name": "f"}])");
  return json;
}

const Json& tools() {
  static const Json json = tern::test::parsed_json(R"([{"type": "function", "function": {"name": "f",
    "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}])");
  return json;
}

// One of each kind of value, under the name that the snippets of the golden tests use.
const Json& kinds() {
  static const Json json = tern::test::parsed_json(
      R"({"a": "str", "n": 3, "f": 1.0, "i": -7, "big": 9223372036854775807, "b": true, "nul": null, "l": [1, "a"],
          "d": {"k": "v"}, "u": "é🎉 "})");
  return json;
}

// The limits of a fuzzed run: small, so that an input that uses them up does not take long.
void render_bounded(const std::string& source) {
  using namespace tern::jinja;
  const std::string where = "fuzz";
  Limits limits;
  limits.steps = 20000;
  limits.memory = std::size_t{8} << 20;
  limits.output = std::size_t{1} << 20;
  std::tm clock{};
  clock.tm_year = 126, clock.tm_mon = 6, clock.tm_mday = 26, clock.tm_hour = 13;
  try {
    const Body body = parse(source, where);
    Evaluator evaluator(where, limits, clock);
    std::vector<std::pair<std::size_t, std::size_t>> spans;
    const std::string text = evaluator.render(body,
                                              {{"messages", tern::chat::value_of(messages())},
                                               {"tools", tern::chat::value_of(tools())},
                                               {"x", tern::chat::value_of(kinds())},
                                               {"add_generation_prompt", Value(true)},
                                               {"bos_token", Value("<s>")}},
                                              &spans);
    for (const auto& [begin, end] : spans)
      tern::fuzz::require(begin <= end && end <= text.size(), "a generation block lies in the text");
  } catch (const tern::Failure&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 16384) return 0;
  render_bounded(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
