// What the schemas of one document allow, as far as can be told: their types, whether two exclude each other, and
// whether a finite text meets them.
#pragma once

#include <cstddef>
#include <unordered_set>
#include <vector>

#include "io/json.h"

namespace tern::engine {

// Sets of JSON types. A number is an integer or not.
constexpr unsigned kObject = 1, kArray = 2, kString = 4, kInteger = 8, kNumber = 8 + 16, kBoolean = 32, kNull = 64;
constexpr unsigned kAnyType = 127;

[[nodiscard]] unsigned type_of(const io::Json& value);
// Of a "type" keyword; 0 where it's broken.
[[nodiscard]] unsigned named_types(const io::Json& type);

class SchemaTypes {
 public:
  explicit SchemaTypes(const io::Json& root) : root_(root) {}

  // What a $ref means, or null: only "#" and "#/a/b" through objects, without escapes.
  [[nodiscard]] const io::Json* resolve(const io::Json& ref) const;
  // False where the schema, or how much it refers, can't be seen through.
  [[nodiscard]] bool all_disjoint(const io::Json& schemas) const;
  [[nodiscard]] bool finite(const io::Json& schema);

 private:
  [[nodiscard]] const io::Json& target(const io::Json& schema) const;  // behind $ref and an allOf of one
  [[nodiscard]] unsigned types(const io::Json& schema) const;
  [[nodiscard]] bool disjoint(const io::Json& a, const io::Json& b) const;
  [[nodiscard]] bool finite(const io::Json& schema, std::vector<const io::Json*>& open);

  const io::Json& root_;
  std::unordered_set<const io::Json*> finite_;
  std::size_t steps_ = 0;
};

}  // namespace tern::engine
