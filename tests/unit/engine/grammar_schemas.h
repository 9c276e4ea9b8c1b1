// Schemas with instances that are valid and invalid by construction, and a validator that knows nothing of the
// grammars.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tern::engine::test {

using io::Json;
using Rng = std::mt19937;

inline int roll(Rng& rng, int sides) { return static_cast<int>(rng() % static_cast<unsigned>(sides)); }

// Members that `required`, `enum` and the like make it easy to build.
struct Case {
  Json schema;
  std::vector<Json> valid;
  std::vector<Json> invalid;
  const Json& some_valid(Rng& rng) const {
    return valid[static_cast<std::size_t>(roll(rng, static_cast<int>(valid.size())))];
  }
  const Json& some_invalid(Rng& rng) const {
    return invalid[static_cast<std::size_t>(roll(rng, static_cast<int>(invalid.size())))];
  }
};

inline Json object_of(std::vector<std::pair<std::string, Json>> members) {
  Json out = Json::object();
  for (auto& [key, value] : members) out.append(key, std::move(value));
  return out;
}
inline Json array_of(std::vector<Json> items) {
  Json out = Json::array();
  for (Json& item : items) out.push_back(std::move(item));
  return out;
}

class SchemaMaker {
 public:
  explicit SchemaMaker(unsigned seed) : rng_(seed) {}

  // A whole document, its definitions with it.
  Case document() {
    defs_ = Json::object();
    Case made = schema(3);
    if (!defs_.empty()) made.schema.append("$defs", defs_);
    return made;
  }
  Rng& rng() { return rng_; }

 private:
  Case schema(int depth) {
    const int kind = roll(rng_, depth > 0 ? 15 : 8);
    switch (kind) {
      case 0:
        return integer();
      case 1:
        return number();
      case 2:
        return text();
      case 3:
        return pattern();
      case 4:
        return {object_of({{"type", "boolean"}}), {true, false}, {0, "true", nullptr}};
      case 5:
        return {object_of({{"const", "a \"b\" \\ é"}}), {"a \"b\" \\ é"}, {"a", 1, nullptr}};
      case 6:
        return {object_of({{"enum", array_of({1, "two", nullptr, array_of({3})})}}),
                {1, "two", nullptr, array_of({3})},
                {2, "one", false, array_of({4})}};
      case 7:
        return {object_of({{"type", array_of({"string", "null"})}, {"maxLength", 2}}),
                {"ab", nullptr, ""},
                {"abc", 1, true}};
      case 8:
        return list(depth);
      case 9:
        return tuple(depth);
      case 10:
        return map(depth);
      case 11:
        return either(depth);
      case 12:
        return tagged(depth);
      case 13:
        return reference(depth);
      default:
        return record(depth);
    }
  }

  Case integer() {
    const int low = roll(rng_, 400) - 200, high = low + roll(rng_, 300);
    if (roll(rng_, 3) == 0) {
      return {object_of({{"type", "integer"}, {"exclusiveMinimum", low - 1}, {"exclusiveMaximum", high + 1}}),
              {low, high},
              {low - 1, high + 1, 0.5, "1"}};
    }
    return {object_of({{"type", "integer"}, {"minimum", low}, {"maximum", high}}),
            {low, high},
            {low - 1, high + 1, 0.5, "1"}};
  }
  Case number() {
    const double low = (roll(rng_, 800) - 400) / 4.0 + 0.125, high = low + roll(rng_, 100) / 4.0 + 0.25;
    return {object_of({{"type", "number"}, {"minimum", low}, {"maximum", high}}),
            {low, high},
            {low - 0.25, high + 0.25, "1", nullptr}};
  }
  Case text() {
    const int least = roll(rng_, 4), most = least + roll(rng_, 5);
    const auto of = [](int letters) {
      std::string out;
      for (int i = 0; i < letters; ++i) out += i % 3 == 1 ? "é" : i % 3 == 2 ? " " : "w";
      return out;
    };
    Case made{object_of({{"type", "string"}, {"minLength", least}, {"maxLength", most}}),
              {of(least), of(most)},
              {of(most + 1), 1, nullptr}};
    if (least > 0) made.invalid.emplace_back(of(least - 1));
    return made;
  }
  Case pattern() {
    switch (roll(rng_, 3)) {
      case 0:
        return {object_of({{"type", "string"}, {"pattern", "^[a-c]{2,4}-\\d+$"}}),
                {"ab-1", "cccc-990"},
                {"a-1", "ab-", "ab-1x", 4}};
      case 1:
        return {object_of({{"type", "string"}, {"pattern", "^(yes|no)( thanks)?$"}}),
                {"yes", "no thanks"},
                {"maybe", "yes ", nullptr}};
      default:
        return {object_of({{"type", "string"}, {"format", "date"}}), {"2026-11-24"}, {"2026-13-24", "24.11.2026", 5}};
    }
  }
  Case list(int depth) {
    const Case item = schema(depth - 1);
    const int least = roll(rng_, 2), most = least + 1 + roll(rng_, 2);
    const auto of = [&](int count) {
      Json out = Json::array();
      for (int i = 0; i < count; ++i) out.push_back(item.some_valid(rng_));
      return out;
    };
    Case made{object_of({{"type", "array"}, {"items", item.schema}, {"minItems", least}, {"maxItems", most}}),
              {of(least), of(most)},
              {of(most + 1), array_of({item.some_invalid(rng_)}), "[]"}};
    if (least > 0) made.invalid.push_back(of(least - 1));
    return made;
  }
  Case tuple(int depth) {
    const Case first = schema(depth - 1), second = schema(depth - 1);
    const Json a = first.some_valid(rng_), b = second.some_valid(rng_);
    return {object_of({{"type", "array"},
                       {"prefixItems", array_of({first.schema, second.schema})},
                       {"items", false},
                       {"minItems", 2}}),
            {array_of({a, b})},
            {array_of({a}), array_of({a, b, a}), array_of({first.some_invalid(rng_), b}),
             array_of({a, second.some_invalid(rng_)})}};
  }
  Case map(int depth) {
    const Case value = schema(depth - 1);
    return {object_of({{"type", "object"}, {"additionalProperties", value.schema}}),
            {Json::object(), object_of({{"x y", value.some_valid(rng_)}, {"é", value.some_valid(rng_)}})},
            {object_of({{"x", value.some_invalid(rng_)}}), 1}};
  }
  // Of a type that nothing else here has, so that one option's invalid instance isn't valid by the other.
  Case either(int depth) {
    const Case value = schema(depth - 1);
    Case made{object_of({{"anyOf", array_of({value.schema, object_of({{"type", "null"}})})}}), value.valid, {}};
    made.valid.emplace_back(nullptr);
    for (const Json& one : value.invalid) {
      if (!one.is_null()) made.invalid.push_back(one);
    }
    return made;
  }
  Case tagged(int depth) {
    Case made{Json::object(), {}, {}};
    Json options = Json::array();
    for (const char* kind : {"a", "b"}) {
      const Case value = schema(depth - 1);
      options.push_back(
          object_of({{"type", "object"},
                     {"properties", object_of({{"kind", object_of({{"const", kind}})}, {kind, value.schema}})},
                     {"required", array_of({"kind", kind})},
                     {"additionalProperties", false}}));
      made.valid.push_back(object_of({{"kind", kind}, {kind, value.some_valid(rng_)}}));
      made.invalid.push_back(object_of({{"kind", kind}, {kind, value.some_invalid(rng_)}}));
      made.invalid.push_back(object_of({{"kind", "c"}, {kind, value.some_valid(rng_)}}));
    }
    made.schema.append("oneOf", std::move(options));
    return made;
  }
  Case reference(int depth) {
    Case value = schema(depth - 1);
    const std::string name = "def" + std::to_string(defs_.size());
    defs_.append(name, value.schema);
    value.schema = object_of({{"$ref", "#/$defs/" + name}});
    return value;
  }
  Case record(int depth) {
    const Case first = schema(depth - 1), second = schema(depth - 1), third = schema(depth - 1);
    const Json a = first.some_valid(rng_), b = second.some_valid(rng_), c = third.some_valid(rng_);
    Json schema =
        object_of({{"type", "object"},
                   {"description", "a record"},
                   {"properties", object_of({{"a", first.schema}, {"say \"b\"", second.schema}, {"c", third.schema}})},
                   {"required", array_of({"a", "c"})}});
    if (roll(rng_, 2) == 0) schema.append("additionalProperties", false);
    return {std::move(schema),
            {object_of({{"a", a}, {"c", c}}), object_of({{"a", a}, {"say \"b\"", b}, {"c", c}})},
            {object_of({{"a", a}}), object_of({{"c", c}}), object_of({{"a", first.some_invalid(rng_)}, {"c", c}}),
             object_of({{"a", a}, {"say \"b\"", second.some_invalid(rng_)}, {"c", c}}),
             object_of({{"a", a}, {"c", third.some_invalid(rng_)}})}};
  }

  Rng rng_;
  Json defs_;
};

inline std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

inline bool is_of(const Json& value, const std::string& type) {
  if (type == "integer")
    return value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  return value.type_name() == type;
}

// Whether the value meets the schema: the keywords that SchemaMaker uses, by JSON Schema's own words.
inline bool meets(const Json& schema, const Json& value, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto any = [&](const Json& list, auto&& test) { return std::count_if(list.begin(), list.end(), test); };
  for (const auto& [key, said] : schema.items()) {
    if (key == "$ref" && !meets(root["$defs"][said.text().substr(8)], value, root)) return false;
    if (key == "const" && !(value == said)) return false;
    if (key == "enum" && any(said, [&](const Json& one) { return one == value; }) == 0) return false;
    if (key == "anyOf" && any(said, [&](const Json& one) { return meets(one, value, root); }) == 0) return false;
    if (key == "oneOf" && any(said, [&](const Json& one) { return meets(one, value, root); }) != 1) return false;
    if (key == "type" && !(said.is_string() ? is_of(value, said.text()) : any(said, [&](const Json& one) {
                                                                            return is_of(value, one.text());
                                                                          }) > 0)) {
      return false;
    }
    if (value.is_number()) {
      const auto x = value.get<double>();
      if (key == "minimum" && x < said.get<double>()) return false;
      if (key == "maximum" && x > said.get<double>()) return false;
      if (key == "exclusiveMinimum" && x <= said.get<double>()) return false;
      if (key == "exclusiveMaximum" && x >= said.get<double>()) return false;
    } else if (value.is_string()) {
      if (key == "minLength" && letters(value.text()) < said.get<std::size_t>()) return false;
      if (key == "maxLength" && letters(value.text()) > said.get<std::size_t>()) return false;
    } else if (value.is_array()) {
      if (key == "minItems" && value.size() < said.get<std::size_t>()) return false;
      if (key == "maxItems" && value.size() > said.get<std::size_t>()) return false;
      const Json* prefix = schema.find("prefixItems");
      for (std::size_t i = 0; i < value.size(); ++i) {
        const bool in_prefix = prefix != nullptr && i < prefix->size();
        if (key == "prefixItems" && in_prefix && !meets(said[i], value[i], root)) return false;
        if (key == "items" && !in_prefix && !meets(said, value[i], root)) return false;
      }
    } else if (value.is_object()) {
      if (key == "required" && any(said, [&](const Json& name) { return !value.contains(name.text()); }) > 0)
        return false;
      const Json* named = schema.find("properties");
      for (const auto& [name, member] : value.items()) {
        const bool is_named = named != nullptr && named->contains(name);
        if (key == "properties" && is_named && !meets(said[name], member, root)) return false;
        if (key == "additionalProperties" && !is_named && !meets(said, member, root)) return false;
      }
    }
  }
  return true;
}

}  // namespace tern::engine::test
