#include "io/json_tape.h"

namespace tern::io {

std::optional<TapeAccess::Value> TapeAccess::find(Value object, std::string_view key) {
  Value found;
  return object[key].get(found) == simdjson::SUCCESS ? std::optional(found) : std::nullopt;
}

TapeField parse_tape(simdjson::dom::parser& parser, std::string_view text, std::string file, const char* mend) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(text.data(), text.size(), true).get(root))
    throw Failure(JsonPlace(std::move(file)).error("a JSON document", simdjson::error_message(error), mend));
  return {root, std::move(file), mend};
}

template class JsonFieldOf<TapeAccess>;

}  // namespace tern::io
