#include "server/texts_field.h"

#include <cstdint>
#include <limits>

#include "io/json.h"

namespace tern::server {

std::vector<engine::Prompt> prompts_field(JsonBody& body, std::string_view key) {
  constexpr const char* kExpected = "a text, token ids, or a list of either";
  const io::Json* given = body.find(key);
  if (given == nullptr) throw body.wrong(key, kExpected);
  if (given->is_string()) return {given->text()};
  if (!given->is_array() || given->empty()) throw body.wrong(key, kExpected);
  const auto ids_of = [&](const io::Json& list) {
    engine::TokenIds ids;
    for (const io::Json& id : list) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMost) throw body.wrong(key, kExpected);
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  };
  std::vector<engine::Prompt> out;
  if ((*given)[0].is_number()) {
    out.emplace_back(ids_of(*given));
    return out;
  }
  for (const io::Json& one : *given) {
    if (one.is_string()) {
      out.emplace_back(one.text());
    } else if (one.is_array()) {
      out.emplace_back(ids_of(one));
    } else {
      throw body.wrong(key, kExpected);
    }
  }
  return out;
}

}  // namespace tern::server
