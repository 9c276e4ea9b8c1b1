#include "data/row.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "data/messages.h"
#include "io/json_dom.h"

namespace tern::data {
namespace {

namespace dom = simdjson::dom;

constexpr std::array<std::string_view, 3> kMessageKeys{"messages", "conversations", "conversation"};
// First come, first served: of two answers in a row, `output` wins over `answer` (docs/cli.md).
constexpr std::array<std::string_view, 4> kQueryKeys{"query", "prompt", "question", "problem"};
constexpr std::array<std::string_view, 5> kResponseKeys{"response", "output", "answer", "solution", "completion"};

// true, false or a number from 0 on, also as strings; a table's reader may have made "1.0" of 1.
std::int64_t label_of(dom::element value, const Place& place) {
  const std::string text =
      value.is_object() || value.is_array() || value.is_null() ? std::string() : text_of(value, place);
  if (text == "true" || text == "True") return 1;
  if (text == "false" || text == "False") return 0;
  std::int64_t number = -1;
  const char* end = text.data() + (text.ends_with(".0") ? text.size() - 2 : text.size());
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && last == end && number >= 0) return number;
  throw Failure(place.error("true, false or the number of a label",
                            text.empty() ? kind_of(value) : cat("\"", text.substr(0, 32), "\""),
                            "write true, false or a number from 0 on"));
}

// The columns of one row under their contract names, in file order; of a name given twice the last counts.
class Columns {
 public:
  Columns(const Place& place, dom::object object, const ColumnMap& map) : place_(place) {
    for (const auto field : object) {
      std::string_view key = field.key;
      bool renamed = false;
      for (const auto& [from, to] : map) {
        if (from == key) {
          key = to;
          renamed = true;
        }
      }
      Entry* same = find(key);
      if (same == nullptr) {
        entries_.push_back({key, field.value, renamed, false});
      } else if (renamed || !same->renamed) {
        *same = {key, field.value, renamed, false};
      }
    }
  }

  // The column's value, marked as used; nothing where it is absent or null.
  std::optional<dom::element> take(std::string_view key) {
    Entry* entry = find(key);
    if (entry == nullptr) return std::nullopt;
    entry->used = true;
    if (entry->value.is_null()) return std::nullopt;
    return entry->value;
  }
  [[nodiscard]] bool has(std::string_view key) {
    const Entry* entry = find(key);
    return entry != nullptr && !entry->value.is_null();
  }
  [[nodiscard]] bool is_null(std::string_view key) {
    const Entry* entry = find(key);
    return entry != nullptr && entry->value.is_null();
  }
  // The string of the first of `keys` that is there; later ones stay unused.
  template <std::size_t N>
  std::optional<std::string> first_text(const std::array<std::string_view, N>& keys) {
    for (const auto key : keys) {
      if (const auto value = take(key)) return text_of(*value, place_.field(key));
    }
    return std::nullopt;
  }
  // Columns for reward functions: all that the row's form did not use up. An answer's column is among them unless it
  // has the form's own name, as accuracy rewards look for `solution` or `answer`.
  [[nodiscard]] std::vector<Column> extra() const {
    std::vector<Column> out;
    for (const auto& entry : entries_) {
      const bool answer = entry.key != kResponseKeys[0] &&
                          std::find(kResponseKeys.begin(), kResponseKeys.end(), entry.key) != kResponseKeys.end();
      if (!entry.used || answer) out.emplace_back(entry.key, simdjson::minify(entry.value));
    }
    return out;
  }
  [[nodiscard]] std::string names() const {
    std::vector<std::string> all;
    for (const auto& entry : entries_) all.emplace_back(entry.key.empty() ? "\"\"" : entry.key);
    return all.empty() ? "no column" : join(all, ", ");
  }

 private:
  struct Entry {
    std::string_view key;
    dom::element value;
    bool renamed = false;
    bool used = false;
  };
  Entry* find(std::string_view key) {
    for (auto& entry : entries_) {
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }
  const Place& place_;
  std::vector<Entry> entries_;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void fill_placeholders(const std::vector<Placeholder>& placeholders, Row& row) {
  const bool chinese = std::any_of(row.extra.begin(), row.extra.end(), [](const Column& column) {
    return column.first == "tag" && column.second == "\"zh\"";
  });
  for (const auto& one : placeholders) {
    for (auto& message : row.messages) replace_all(message.content, one.place, chinese ? one.chinese : one.other);
  }
}

}  // namespace

struct Normalizer::State {
  NormalizeOptions options;
  dom::parser parser;
  dom::parser inner;  // for JSON inside a string, as CSV cells and some exporters have it

  dom::element parse(dom::parser& with, std::string_view text, const Place& place) {
    dom::element element;
    const auto error = with.parse(text.data(), text.size()).get(element);
    if (error != simdjson::SUCCESS)
      throw Failure(place.error("valid JSON", json_problem(error), "write the row as one JSON object"));
    return element;
  }

  // A column that holds a structure, given as itself or as a string of JSON. Each call ends the life of the last one's
  // element, so take what it says before the next.
  dom::element structured(dom::element value, const Place& place) {
    if (!value.is_string()) return value;
    const std::string_view text = trim(string_in(value));
    if (!text.starts_with('[') && !text.starts_with('{')) return value;
    return parse(inner, text, place);
  }

  // The array of messages that an answer is given as, itself or as JSON in a string; nothing where it is plain text,
  // which may well begin with a bracket.
  std::optional<dom::element> message_list(dom::element value) {
    if (value.is_array()) return value;
    if (!value.is_string()) return std::nullopt;
    const std::string_view text = trim(string_in(value));
    dom::element list;
    if (!text.starts_with('[') || inner.parse(text.data(), text.size()).get(list) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    const dom::array array = array_in(list);
    if (array.size() == 0 || !element_at(array, 0).is_object()) return std::nullopt;
    return list;
  }

  std::vector<std::string> media_list(Columns& columns, std::string_view plural, std::string_view one,
                                      const Place& place) {
    std::vector<std::string> out;
    for (const auto key : {plural, one}) {
      const auto value = columns.take(key);
      if (!value) continue;
      const dom::element list = structured(*value, place.field(key));
      if (list.is_array()) {
        std::size_t index = 0;
        for (const dom::element item : array_in(list)) {
          out.push_back(media_value(item, place.field(key).at(index++)));
        }
      } else {
        out.push_back(media_value(list, place.field(key)));
      }
    }
    return out;
  }

  // The dialogue, from whichever format the row has.
  void dialogue(Columns& columns, const Place& place, Row& row, MediaLists& media) {
    for (const auto key : kMessageKeys) {
      if (const auto value = columns.take(key)) {
        row.messages = messages_of(structured(*value, place.field(key)), place.field(key), media);
        return;
      }
    }
    if (columns.has("instruction") || (columns.has("input") && !has_any(columns, kQueryKeys))) {
      alpaca(columns, place, row);
      return;
    }
    if (columns.has("text") && !has_any(columns, kQueryKeys) && !has_any(columns, kResponseKeys)) {
      row.text = text_of(*columns.take("text"), place.field("text"));
      return;
    }
    if (const auto value = columns.take("history")) {
      row.messages = history_of(structured(*value, place.field("history")), place.field("history"));
    }
    const auto query = columns.first_text(kQueryKeys);
    if (query) row.messages.push_back({"user", *query, {}, {}});
    const bool answered = answer(columns, place, row);
    if (!query && !answered) {
      throw Failure(data_error(place.where(), "a column of messages, query, response, instruction or text",
                               columns.names(), "name yours with --columns '{\"theirs\": \"query\"}'"));
    }
  }

  void alpaca(Columns& columns, const Place& place, Row& row) {
    std::string query;
    for (const std::string_view key : {"instruction", "input"}) {
      const auto value = columns.take(key);
      if (!value) continue;
      const std::string text = text_of(*value, place.field(key));
      if (!query.empty() && !text.empty()) query += '\n';
      query += text;
    }
    if (const auto value = columns.take("history")) {
      row.messages = history_of(structured(*value, place.field("history")), place.field("history"));
    }
    row.messages.push_back({"user", query, {}, {}});
    answer(columns, place, row);
  }

  bool answer(Columns& columns, const Place& place, Row& row) const {
    const auto response = columns.first_text(kResponseKeys);
    if (!response && options.strict) {
      for (const auto key : kResponseKeys) {
        if (columns.is_null(key)) {
          throw Failure(place.field(key).error("a string", "null", "write the answer, or leave the column away"));
        }
      }
    }
    if (response) row.messages.push_back({"assistant", *response, {}, {}});
    return response.has_value();
  }

  template <std::size_t N>
  static bool has_any(Columns& columns, const std::array<std::string_view, N>& keys) {
    return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return columns.has(key); });
  }

  void preference(Columns& columns, const Place& place, Row& row, MediaLists& media) {
    if (const auto value = columns.take("rejected_messages")) {
      row.rejected =
          messages_of(structured(*value, place.field("rejected_messages")), place.field("rejected_messages"), media);
    } else if (const auto response = columns.take("rejected_response")) {
      const Place here = place.field("rejected_response");
      if (!row.answered())
        throw Failure(here.error("a chosen answer beside it", "a prompt only", "add \"response\", the better answer"));
      row.rejected = row.messages;
      // The turn that is answered anew: everything behind the last user message.
      while (!row.rejected.empty() && row.rejected.back().role != "user") row.rejected.pop_back();
      if (const auto list = message_list(*response)) {
        auto answer = messages_of(*list, here, media);
        if (answer.front().role == "user" || answer.front().role == "system") row.rejected.clear();
        row.rejected.insert(row.rejected.end(), answer.begin(), answer.end());
      } else {
        row.rejected.push_back({"assistant", text_of(*response, here), {}, row.messages.back().loss});
      }
    }
    if (const auto value = columns.take("margin")) row.margin = number_of(*value, place.field("margin"));
    if (const auto value = columns.take("label")) row.label = label_of(*value, place.field("label"));
  }

  void system(Columns& columns, const Place& place, Row& row) {
    std::optional<std::string> text;
    for (const std::string_view key : {"system", "system_prompt"}) {
      const auto value = columns.take(key);
      if (value && !text) text = text_of(*value, place.field(key));
    }
    if (row.messages.empty()) return;
    if (!text && !options.system.empty()) text = options.system;
    for (auto* dialogue : {&row.messages, &row.rejected}) {
      if (!text || text->empty() || dialogue->empty() || dialogue->front().role == "system") continue;
      dialogue->insert(dialogue->begin(), Message{"system", *text, {}, {}});
    }
  }
};

bool Row::answered() const {
  return !messages.empty() && (messages.back().role == "assistant" || messages.back().role == "tool_call");
}

Normalizer::Normalizer(NormalizeOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}
Normalizer::~Normalizer() = default;
Normalizer::Normalizer(Normalizer&&) noexcept = default;
Normalizer& Normalizer::operator=(Normalizer&&) noexcept = default;

Result<Row> Normalizer::row(const RawRow& raw, const std::string& file) {
  if (raw.error) return *raw.error;
  return catching([&] {
    Row row;
    row.file = file;
    row.line = raw.line;
    row.ordinal = raw.ordinal;
    const Place place(cat(file, ":", raw.line));
    const dom::element element = state_->parse(state_->parser, raw.json, place);
    if (!element.is_object())
      throw Failure(
          data_error(place.where(), "a JSON object", kind_of(element), R"(write the row as {"messages": [...]})"));
    Columns columns(place, object_in(element), state_->options.columns);
    MediaLists media;
    state_->dialogue(columns, place, row, media);
    const std::size_t inside = media.images.size() + media.videos.size() + media.audios.size();
    MediaLists discarded;  // the rejected dialogue shows the same media
    state_->preference(columns, place, row, discarded);
    state_->system(columns, place, row);
    row.images = state_->media_list(columns, "images", "image", place);
    row.videos = state_->media_list(columns, "videos", "video", place);
    row.audios = state_->media_list(columns, "audios", "audio", place);
    if (inside > 0) {
      if (row.images.size() + row.videos.size() + row.audios.size() > 0) {
        throw Failure(
            place.field("images").error("media in content parts or in columns", "both", "keep one of the two"));
      }
      row.images = std::move(media.images);
      row.videos = std::move(media.videos);
      row.audios = std::move(media.audios);
    }
    place_media(row, row.images, "<image>", place.field("images"));
    place_media(row, row.videos, "<video>", place.field("videos"));
    place_media(row, row.audios, "<audio>", place.field("audios"));
    if (const auto value = columns.take("tools")) {
      const dom::element tools = state_->structured(*value, place.field("tools"));
      if (!tools.is_array())
        throw Failure(place.field("tools").error("an array of tool definitions", kind_of(tools),
                                                 "write it as the array that the model's chat template takes"));
      if (array_in(tools).size() > 0) row.tools_json = kept_json(tools, place.field("tools"));
    }
    row.extra = columns.extra();
    fill_placeholders(state_->options.placeholders, row);
    return row;
  });
}

}  // namespace tern::data
