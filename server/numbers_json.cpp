#include "server/numbers_json.h"

#include <bit>
#include <string_view>

#include "base/base64.h"

namespace tern::server {

bool wants_base64(JsonBody& body) {
  const std::string format = body.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") throw body.wrong("encoding_format", "float or base64");
  return format == "base64";
}

io::Json numbers_json(std::span<const float> values, bool as_text) {
  static_assert(std::endian::native == std::endian::little);
  if (as_text) return encode_base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  io::Json out = io::Json::array();
  for (const float value : values) out.push_back(value);
  return out;
}

}  // namespace tern::server
