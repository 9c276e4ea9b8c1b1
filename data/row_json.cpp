// Rows back to JSON, for files that the reader reads again.
#include <simdjson.h>

#include "base/strings.h"
#include "data/messages.h"
#include "data/row.h"

namespace tern::data {
namespace {

namespace dom = simdjson::dom;

void append_messages(std::string& out, const std::vector<Message>& messages) {
  out += '[';
  for (const auto& message : messages) {
    if (&message != &messages.front()) out += ", ";
    out += R"({"role": )";
    append_json_string(out, message.role);
    out += R"(, "content": )";
    append_json_string(out, message.content);
    if (message.loss) out += cat(R"(, "loss": )", *message.loss);
    if (message.members_json.size() > 2) {
      out += cat(", ", std::string_view(message.members_json).substr(1, message.members_json.size() - 2));
    }
    out += '}';
  }
  out += ']';
}

void append_list(std::string& out, std::string_view key, const std::vector<std::string>& list) {
  if (list.empty()) return;
  out += cat(", \"", key, "\": [");
  for (const auto& item : list) {
    if (&item != &list.front()) out += ", ";
    append_json_string(out, item);
  }
  out += ']';
}

void append_dialogues(std::string& out, std::string_view key, const std::vector<std::vector<Message>>& dialogues) {
  if (dialogues.empty()) return;
  out += cat(", \"", key, "\": [");
  for (const auto& dialogue : dialogues) {
    if (&dialogue != &dialogues.front()) out += ", ";
    append_messages(out, dialogue);
  }
  out += ']';
}

void append_label(std::string& out, const Row& row) {
  if (row.label) {
    out += cat(R"(, "label": )", *row.label);
    return;
  }
  if (!row.labels) return;
  std::vector<std::string> numbers;
  for (const double number : *row.labels) numbers.push_back(cat(number));
  out += cat(R"(, "label": [)", join(numbers, ", "), "]");
}

}  // namespace

std::string to_json(const Row& row) {
  std::string out = "{";
  if (row.text) {
    out += R"("text": )";
    append_json_string(out, *row.text);
  } else {
    out += R"("messages": )";
    append_messages(out, row.messages);
  }
  if (!row.rejected.empty()) {
    out += R"(, "rejected_messages": )";
    append_messages(out, row.rejected);
  }
  append_dialogues(out, "positive_messages", row.positives);
  append_dialogues(out, "negative_messages", row.negatives);
  append_label(out, row);
  if (row.margin) out += cat(R"(, "margin": )", *row.margin);
  if (!row.tools_json.empty()) out += cat(R"(, "tools": )", row.tools_json);
  append_list(out, "images", row.images);
  append_list(out, "videos", row.videos);
  append_list(out, "audios", row.audios);
  for (const auto& [key, value] : row.extra) {
    out += ", ";
    append_json_string(out, key);
    out += ": ";
    out += value;
  }
  out += '}';
  return out;
}

Result<ColumnMap> parse_columns(std::string_view json) {
  return catching([&] {
    ColumnMap map;
    if (trim(json).empty()) return map;
    dom::parser parser;
    dom::element value;
    const auto wrong = [&] {
      return Failure(usage_error(cat("--columns ", json.substr(0, 64), " is not a JSON object of names"),
                                 R"(write it as {"theirs": "query"})"));
    };
    if (parser.parse(json.data(), json.size()).get(value) != simdjson::SUCCESS || !value.is_object()) {
      throw wrong();
    }
    for (const auto field : object_in(value)) {
      if (!field.value.is_string()) throw wrong();
      map.emplace_back(std::string(field.key), std::string(string_in(field.value)));
    }
    return map;
  });
}

}  // namespace tern::data
