// A dialogue as people and datasets write it; chat/template_messages.h gives it the form that templates take.
#pragma once

#include <optional>
#include <string>

namespace tern::chat {

struct Message {
  std::string role;     // system user assistant tool_call tool_response tool
  std::string content;  // text; media stand in it as <image>, <video>, <audio>
  std::string
      members_json;  // the message's other members (tool_calls, name, reasoning_content) as one JSON object, or ""
  std::optional<double> loss;  // the weight that training gives this message; true is 1, false 0

  friend bool operator==(const Message&, const Message&) = default;
};

}  // namespace tern::chat
