// Dialogues and media as the formats write them; only for sources that include simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "data/row.h"
#include "io/json_dom.h"

namespace tern::data {

using io::array_in;
using io::element_at;
using io::json_problem;
using io::kind_of;
using io::number_of;
using io::object_in;
using io::string_in;
using io::text_of;
using Place = io::JsonPlace;  // of a row: file:line and the field inside it

struct MediaLists {
  std::vector<std::string> images, videos, audios;
};

// A media value: a path, URL or base64 text, or an object that holds one as `url`, `path` or `data`, or base64 as
// `bytes`, which becomes a data: URL.
[[nodiscard]] std::string media_value(simdjson::dom::element value, const Place& place);

// An array of messages in any of the contract's spellings; media of content parts are appended to `media`.
[[nodiscard]] std::vector<Message> messages_of(simdjson::dom::element value, const Place& place, MediaLists& media);

// `history`: [[query, response], ...].
[[nodiscard]] std::vector<Message> history_of(simdjson::dom::element value, const Place& place);

// A part of a row that is kept as JSON for others to read. Throws Failure where they could not: a key twice.
[[nodiscard]] std::string kept_json(simdjson::dom::element value, const Place& place);

// Every medium has its place in the text: those without a tag come before the first user message's text.
void place_media(Row& row, const std::vector<std::string>& media, std::string_view tag, const Place& place);

}  // namespace tern::data
