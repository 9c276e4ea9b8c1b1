#include "engine/schema_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace tern::engine {

using io::Json;

namespace {

// The only values that a schema allows, where it names them.
std::vector<const Json*> named_values(const Json& schema) {
  std::vector<const Json*> values;
  if (const Json* one = schema.find("const")) {
    values.push_back(one);
  } else if (const Json* several = schema.find("enum")) {
    for (const Json& value : *several) values.push_back(&value);
  }
  return values;
}

bool names_apart(const Json& a, const Json& b) {
  const auto first = named_values(a), second = named_values(b);
  if (first.empty() || second.empty()) return false;
  return std::none_of(first.begin(), first.end(), [&](const Json* x) {
    return std::any_of(second.begin(), second.end(), [&](const Json* y) {
      return *x == *y || (x->is_number() && y->is_number() && x->get<double>() == y->get<double>()) || x->is_object() ||
             x->is_array();
    });
  });
}

bool requires_member(const Json& schema, std::string_view name) {
  const Json* required = schema.find("required");
  if (required == nullptr || !required->is_array()) return false;
  return std::any_of(required->begin(), required->end(),
                     [&](const Json& one) { return one.is_string() && one.text() == name; });
}

}  // namespace

unsigned type_of(const Json& value) {
  if (value.is_object()) return kObject;
  if (value.is_array()) return kArray;
  if (value.is_string()) return kString;
  if (value.is_boolean()) return kBoolean;
  if (value.is_null()) return kNull;
  const bool whole = value.is_number_integer() || value.get<double>() == std::floor(value.get<double>());
  return whole ? kInteger : kNumber & ~kInteger;
}

unsigned named_types(const Json& type) {
  static constexpr std::array<std::pair<std::string_view, unsigned>, 7> names = {{{"object", kObject},
                                                                                  {"array", kArray},
                                                                                  {"string", kString},
                                                                                  {"integer", kInteger},
                                                                                  {"number", kNumber},
                                                                                  {"boolean", kBoolean},
                                                                                  {"null", kNull}}};
  if (type.is_array()) {
    unsigned all = 0;
    for (const Json& one : type) {
      const unsigned single = one.is_string() ? named_types(one) : 0;
      if (single == 0) return 0;
      all |= single;
    }
    return all;
  }
  if (!type.is_string()) return 0;
  for (const auto& [name, bits] : names) {
    if (type.text() == name) return bits;
  }
  return 0;
}

const Json* SchemaTypes::resolve(const Json& ref) const {
  if (!ref.is_string()) return nullptr;
  std::string_view uri = ref.text();
  if (uri == "#") return &root_;
  if (!uri.starts_with("#/") || uri.find_first_of("~%") != std::string_view::npos) return nullptr;
  uri.remove_prefix(1);
  const Json* at = &root_;
  while (!uri.empty()) {
    uri.remove_prefix(1);
    const std::string_view part = uri.substr(0, uri.find('/'));
    if (part.empty() || !at->is_object()) return nullptr;
    at = at->find(part);
    if (at == nullptr) return nullptr;
    uri.remove_prefix(part.size());
  }
  return at;
}

const Json& SchemaTypes::target(const Json& schema) const {
  const Json* at = &schema;
  for (int hops = 0; hops < 16; ++hops) {
    const Json* next = nullptr;
    if (const Json* ref = at->find("$ref")) next = resolve(*ref);
    if (const Json* all = at->find("allOf"); all != nullptr && all->is_array() && all->size() == 1) next = &(*all)[0];
    if (next == nullptr) return *at;
    at = next;
  }
  return *at;
}

unsigned SchemaTypes::types(const Json& schema) const {
  if (!schema.is_object() || schema.contains("$ref") || schema.contains("allOf")) return kAnyType;
  unsigned bits = 0;
  for (const char* shape : {"anyOf", "oneOf"}) {
    const Json* options = schema.find(shape);
    if (options == nullptr) continue;
    for (const Json& option : *options) {
      const Json& one = target(option);
      bits |= one.contains("anyOf") || one.contains("oneOf") ? kAnyType : types(one);
    }
    return bits;
  }
  for (const Json* value : named_values(schema)) bits |= type_of(*value);
  if (bits != 0) return bits;
  if (const Json* type = schema.find("type")) return named_types(*type);
  if (schema.contains("properties") || schema.contains("additionalProperties")) return kObject;
  return schema.contains("items") || schema.contains("prefixItems") ? kArray : kAnyType;
}

bool SchemaTypes::disjoint(const Json& a, const Json& b) const {
  const Json &first = target(a), &second = target(b);
  if ((types(first) & types(second)) == 0 || names_apart(first, second)) return true;
  const Json *mine = first.find("properties"), *other = second.find("properties");
  if (mine == nullptr || other == nullptr || (types(first) | types(second)) != kObject) return false;
  return std::any_of(mine->items().begin(), mine->items().end(), [&](const Json::Member& member) {
    const Json* twin = other->find(member.key);
    return twin != nullptr && requires_member(first, member.key) && requires_member(second, member.key) &&
           (names_apart(target(member.value), target(*twin)) ||
            (types(target(member.value)) & types(target(*twin))) == 0);
  });
}

bool SchemaTypes::all_disjoint(const Json& schemas) const {
  if (schemas.size() > 64) return false;
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!disjoint(schemas[i], schemas[k])) return false;
    }
  }
  return true;
}

bool SchemaTypes::finite(const Json& schema) {
  std::vector<const Json*> open;
  return finite(schema, open);
}

bool SchemaTypes::finite(const Json& schema, std::vector<const Json*>& open) {
  constexpr std::size_t most = 200'000;
  if (!schema.is_object() || finite_.contains(&schema)) return true;
  if (++steps_ > most || open.size() > 256 || std::find(open.begin(), open.end(), &schema) != open.end()) return false;
  open.push_back(&schema);
  const auto each = [&](const Json& one) { return finite(one, open); };
  bool result = true;
  if (const Json* ref = schema.find("$ref")) {
    const Json* to = resolve(*ref);
    result = to != nullptr && each(*to);
  } else if (const Json* all = schema.find("allOf")) {
    result = std::all_of(all->begin(), all->end(), each);
  } else if (schema.contains("anyOf") || schema.contains("oneOf")) {
    const Json& options = schema.contains("anyOf") ? schema["anyOf"] : schema["oneOf"];
    result = std::any_of(options.begin(), options.end(), each);
  } else if (const Json* type = schema.find("type"); type == nullptr || type->is_string()) {
    const Json* required = schema.find("required");
    if (const Json* named = schema.find("properties"); named != nullptr && required != nullptr) {
      result = std::all_of(required->begin(), required->end(),
                           [&](const Json& name) { return each((*named)[name.text()]); });
    }
    const Json* least = schema.find("minItems");
    const std::size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (least != nullptr && least->is_number_unsigned()) {
      const auto count = least->get<std::size_t>();
      for (std::size_t i = 0; result && i < std::min(count, prefix); ++i) result = each(schema["prefixItems"][i]);
      if (result && count > prefix && schema.contains("items")) result = each(schema["items"]);
    }
  }
  open.pop_back();
  if (result) finite_.insert(&schema);
  return result;
}

}  // namespace tern::engine
