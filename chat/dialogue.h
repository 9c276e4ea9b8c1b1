// A dialogue in the form that templates take, converted once and shared by all renderings of it and of its prefixes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/json_fwd.h"
#include "jinja/value.h"

namespace tern::chat {

struct ChatInput;

struct Dialogue {
  jinja::Values messages;                                       // [messages] dicts
  std::vector<std::pair<std::string, jinja::Value>> variables;  // the others: tokens, kwargs, tools, documents
};

// Fails with ErrorKind::data for messages that are no array of objects, kwargs that are no object, and values nested
// too deep.
[[nodiscard]] Result<Dialogue> read_dialogue(const ChatInput& input);

// JSON's numbers stay integers or floats as they were written; order is kept. Throws jinja::Problem where it nests too
// deep.
[[nodiscard]] jinja::Value value_of(const io::Json& json);

// A message from its members: what transformers' reasoning names stand for is given under each of them. Throws
// jinja::Problem where it nests too deep.
[[nodiscard]] jinja::Value make_message(std::vector<std::pair<jinja::Value, jinja::Value>> members);

// Sets the member `key`, which is put behind the others where it is new.
void set_member(std::vector<std::pair<jinja::Value, jinja::Value>>& members, std::string_view key, jinja::Value value);

// What a Problem met while values are made says of the messages that they come from.
[[nodiscard]] Error messages_error(const jinja::Problem& problem);

// The mend of messages of another form.
inline constexpr const char* as_messages = R"(give them as [{"role": "user", "content": "..."}, ...])";

}  // namespace tern::chat
