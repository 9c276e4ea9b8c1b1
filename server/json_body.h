// A request's JSON body, read field by field: what is never read is an error, so that no field is ignored in silence.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/json.h"

namespace tern::server {

// An object of the body. Getters give nothing for a field that is absent or null, and throw Failure (data) for one of
// another type or outside its range.
class JsonBody {
 public:
  // The whole body. Throws Failure (data) for text that is no JSON object.
  explicit JsonBody(std::string_view text);
  // A field of another body; `place` names it: "stream_options".
  JsonBody(const io::Json& object, std::string place);

  [[nodiscard]] const io::Json* find(std::string_view key);  // null: absent or null
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  [[nodiscard]] std::optional<double> number(std::string_view key, double least, double most);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, std::int64_t least,
                                                    std::int64_t most = std::numeric_limits<std::int64_t>::max());
  [[nodiscard]] std::optional<JsonBody> object(std::string_view key);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);  // also of a single one
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key);
  [[nodiscard]] std::string required_text(std::string_view key);

  // Fields that make no difference to the answer and are taken without reading them.
  void takes(std::initializer_list<std::string_view> keys);
  // Throws Failure (data) for a field that nobody read: it is none of this route's.
  void finish() const;

  [[nodiscard]] const io::Json& json() const { return json_; }
  // `field "stop[1]"`, as errors say it.
  [[nodiscard]] std::string place(std::string_view key) const;
  [[nodiscard]] std::string inner(std::string_view key) const;  // `stop`, as the place of a body inside this one
  [[nodiscard]] Failure wrong(std::string_view key, std::string_view expected) const;

 private:
  io::Json json_;
  std::string place_;
  std::set<std::string, std::less<>> read_;
};

// The field that an error of a body is about, as OpenAI's `param`; "": none.
[[nodiscard]] std::string field_of(const Error& error);

}  // namespace tern::server
