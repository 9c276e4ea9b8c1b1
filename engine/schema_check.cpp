#include "engine/schema_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/schema_types.h"
#include "io/json.h"

namespace tern::engine {

namespace {

using io::Json;

constexpr std::size_t kLongest = std::size_t{1} << 18;  // bytes
constexpr int kDeepest = 64;                            // schemas in schemas
constexpr std::size_t kMostNodes = 4096;
// Of minLength, maxItems and the like, each and together: xgrammar takes 14 ms to compile each for 150,000 tokens.
constexpr std::int64_t kMostRepeats = 100, kMostRepeatsTogether = 200;

constexpr std::array kAnnotations = {"title",    "description", "default",  "examples", "example",      "deprecated",
                                     "readOnly", "writeOnly",   "$comment", "$schema",  "discriminator"};
constexpr std::array kShapes = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
// Formats whose form xgrammar spells out; that a date is one of the calendar's isn't told. Its form of
// an email lets a backslash stand before anything, which is no JSON.
constexpr std::array kFormats = {"date", "time", "date-time", "uuid"};

struct Keyword {
  std::string_view name;
  unsigned types;  // that it says something of
};
constexpr std::array kKeywords = {
    Keyword{"minLength", kString},
    Keyword{"maxLength", kString},
    Keyword{"pattern", kString},
    Keyword{"format", kString},
    Keyword{"minimum", kNumber},
    Keyword{"maximum", kNumber},
    Keyword{"exclusiveMinimum", kNumber},
    Keyword{"exclusiveMaximum", kNumber},
    Keyword{"items", kArray},
    Keyword{"prefixItems", kArray},
    Keyword{"minItems", kArray},
    Keyword{"maxItems", kArray},
    Keyword{"properties", kObject},
    Keyword{"required", kObject},
    Keyword{"additionalProperties", kObject},
};

template <typename Names>
bool among(const Names& names, std::string_view key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

class Checker {
 public:
  Checker(const Json& root, std::string where) : root_(root), types_(root), where_(std::move(where)) {}

  Json run() {
    Json checked = schema(root_, "$", 0);
    for (const auto& [target, path] : refs_) {
      if (!schemas_.contains(target)) refuse(path, "the place of a schema", "a place of something else", "mend $ref");
    }
    for (const auto& [node, path] : nodes_) {
      if (!types_.finite(*node)) {
        refuse(path, "a schema that a finite text can meet", "one that holds itself without end",
               "make the member that leads back optional");
      }
    }
    return checked;
  }

 private:
  [[noreturn]] void refuse(const std::string& path, std::string_view expected, std::string_view found,
                           std::string_view mend) const {
    throw Failure(data_error(where_ + ": " + path, expected, found, mend));
  }
  [[noreturn]] void unenforced(const std::string& path, std::string_view keyword, std::string_view mend) const {
    refuse(path, "keywords that are enforced", "\"" + std::string(keyword) + "\"", mend);
  }

  Json schema(const Json& node, const std::string& path, int depth) {
    if (depth > kDeepest)
      refuse(path, "at most " + std::to_string(kDeepest) + " schemas in schemas", "more", "nest less");
    if (++count_ > kMostNodes) refuse(path, "at most " + std::to_string(kMostNodes) + " schemas", "more", "use fewer");
    schemas_.insert(&node);
    if (node.is_boolean() && node.get<bool>()) return Json(true);
    if (!node.is_object()) {
      refuse(path, "a schema, as an object", node.is_boolean() ? "false" : node.type_name(),
             "describe what is allowed");
    }
    nodes_.emplace_back(&node, path);
    const std::string shape = shape_of(node, path);
    const unsigned types = types_of(node, path, shape);
    Json out = Json::object();
    if (shape.empty() && types != 0) {
      if (node.contains("type")) {
        out.append("type", node["type"]);
      } else {
        out.append("type", types == kObject ? "object" : "array");
      }
    }
    for (const auto& [key, value] : node.items()) {
      if (among(kAnnotations, key) || (key == "$id" && depth == 0) || key == "type") continue;
      if (key == "$defs" || key == "definitions") {
        out.append(key, members(value, path + "." + key, depth));
      } else if (key == shape) {
        out.append(key, shaped(key, value, path, depth));
      } else {
        const auto* row =
            std::find_if(kKeywords.begin(), kKeywords.end(), [&](const Keyword& k) { return k.name == key; });
        if (row == kKeywords.end()) unenforced(path, key, "leave it out");
        if (!shape.empty()) unenforced(path, key + "\" beside \"" + shape, "write it inside instead");
        if ((row->types & types) == 0) unenforced(path, key, "it needs a \"type\" that it speaks of");
        keyword(out, node, key, value, path, depth);
      }
    }
    string_rules(node, path);
    lengths(out, node);
    return out;
  }

  std::string shape_of(const Json& node, const std::string& path) const {
    std::string shape;
    for (const char* name : kShapes) {
      if (!node.contains(name)) continue;
      if (!shape.empty()) unenforced(path, std::string(name) + "\" beside \"" + shape, "keep one of them");
      shape = name;
    }
    return shape;
  }

  // 0 where any value is meant.
  unsigned types_of(const Json& node, const std::string& path, const std::string& shape) const {
    const Json* type = node.find("type");
    if (type == nullptr) {
      if (!shape.empty()) return 0;
      if (node.contains("properties") || node.contains("additionalProperties")) return kObject;
      return node.contains("items") || node.contains("prefixItems") ? kArray : 0;
    }
    const unsigned types = named_types(*type);
    if (types == 0) refuse(path + ".type", "the name of a JSON type, or an array of them", type->dump(), "mend it");
    if (shape.empty()) return types;
    if (shape != "const" && shape != "enum") unenforced(path, "type\" beside \"" + shape, "write it inside instead");
    const Json& value = node[shape];
    const auto fits = [&](const Json& one) { return (type_of(one) & types) != 0; };
    const bool all = shape == "const" ? fits(value) : std::all_of(value.begin(), value.end(), fits);
    if (!all) refuse(path + "." + shape, "values of the schema's type", "others", "mend one of the two");
    return types;
  }

  Json members(const Json& value, const std::string& path, int depth) {
    if (!value.is_object()) refuse(path, "an object of schemas", value.type_name(), "mend it");
    Json out = Json::object();
    for (const auto& [key, member] : value.items()) out.append(key, schema(member, path + "." + key, depth + 1));
    return out;
  }

  Json list(const Json& value, const std::string& path, int depth) {
    if (!value.is_array() || value.empty()) refuse(path, "an array of schemas", value.dump().substr(0, 40), "mend it");
    Json out = Json::array();
    for (std::size_t i = 0; i < value.size(); ++i) {
      out.push_back(schema(value[i], path + "[" + std::to_string(i) + "]", depth + 1));
    }
    return out;
  }

  Json shaped(const std::string& key, const Json& value, const std::string& path, int depth) {
    const std::string place = path + "." + key;
    if (key == "const") return value;
    if (key == "enum") {
      if (!value.is_array() || value.empty())
        refuse(place, "an array of values", value.dump().substr(0, 40), "mend it");
      return value;
    }
    if (key == "$ref") {
      const Json* target = types_.resolve(value);
      if (target == nullptr) {
        refuse(place, "a place in this schema, such as \"#/$defs/name\"", value.dump().substr(0, 80), "mend it");
      }
      refs_.emplace_back(target, place);
      return value;
    }
    if (key == "allOf" && value.is_array() && value.size() > 1) {
      refuse(place, "one schema, as no more are enforced together", std::to_string(value.size()), "merge them");
    }
    Json out = list(value, place, depth);
    if (key == "oneOf" && !types_.all_disjoint(value)) {
      refuse(place, "schemas that exclude each other by type, by value or by a required member's value",
             "some that may both hold", "use anyOf, or a member that tells them apart");
    }
    return out;
  }

  void keyword(Json& out, const Json& node, const std::string& key, const Json& value, const std::string& path,
               int depth) {
    const std::string place = path + "." + key;
    if (key == "items") {
      out.append(key, value == false ? Json(false) : schema(value, place, depth + 1));
    } else if (key == "prefixItems") {
      out.append(key, list(value, place, depth));
    } else if (key == "properties") {
      out.append(key, members(value, place, depth));
    } else if (key == "required") {
      required(node, value, place);
      out.append(key, value);
    } else if (key == "additionalProperties") {
      const Json* named = node.find("properties");
      const bool has_named = named != nullptr && !named->empty();
      if (value.is_boolean() && (has_named || value == false)) {
        out.append(key, false);
      } else if (has_named) {
        unenforced(path, "additionalProperties\" with a schema beside \"properties",
                   "use false, or only one of the two");
      } else {
        out.append(key, schema(value, place, depth + 1));
      }
    } else {
      if (key != "pattern" && key != "format") number(key, value, place);
      if (!key.ends_with("Length")) out.append(key, value);
    }
  }

  // As a pattern: what xgrammar makes of lengths lets control characters through, which no JSON text may have.
  static void lengths(Json& out, const Json& node) {
    const Json *least = node.find("minLength"), *most = node.find("maxLength");
    if (least == nullptr && most == nullptr) return;
    out.append("pattern",
               "^.{" + (least == nullptr ? "0" : least->dump()) + "," + (most == nullptr ? "" : most->dump()) + "}$");
  }

  void required(const Json& node, const Json& value, const std::string& place) const {
    if (!value.is_array()) refuse(place, "an array of names", value.type_name(), "mend it");
    const Json* named = node.find("properties");
    std::set<std::string> seen;
    for (const Json& name : value) {
      if (!name.is_string() || named == nullptr || !named->contains(name.text())) {
        refuse(place, "names that \"properties\" has", name.dump(), "add it to \"properties\"");
      }
      if (!seen.insert(name.text()).second) refuse(place, "each name once", name.dump() + " again", "drop one");
    }
  }

  void number(const std::string& key, const Json& value, const std::string& place) {
    if (key.ends_with("Length") || key.ends_with("Items")) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostRepeats)) {
        refuse(place, "a count of at most " + std::to_string(kMostRepeats), value.dump(),
               "use a smaller one, or leave it out");
      }
      repeats_ += value.get<std::int64_t>();
      if (repeats_ > kMostRepeatsTogether) {
        refuse(place, "lengths and counts of at most " + std::to_string(kMostRepeatsTogether) + " together", "more",
               "leave some out");
      }
      return;
    }
    if (!value.is_number()) refuse(place, "a number", value.type_name(), "mend it");
    const auto real = value.get<double>();
    if (std::abs(real) > 1e15 || std::abs(real * 1e6 - std::round(real * 1e6)) > 1e-3) {
      refuse(place, "a bound of at most 6 decimals, from -1e15 to 1e15", value.dump(), "round it, or leave it out");
    }
  }

  void string_rules(const Json& node, const std::string& path) const {
    const Json* pattern = node.find("pattern");
    const Json* format = node.find("format");
    const bool length = node.contains("minLength") || node.contains("maxLength");
    if (static_cast<int>(pattern != nullptr) + static_cast<int>(format != nullptr) + static_cast<int>(length) > 1) {
      unenforced(path, pattern != nullptr ? "pattern" : "format", "keep one of pattern, format and lengths");
    }
    if (format != nullptr && !(format->is_string() && among(kFormats, format->text()))) {
      refuse(path + ".format", "one of date, time, date-time, uuid", format->dump(), "use a pattern");
    }
    if (pattern == nullptr) return;
    if (!pattern->is_string()) refuse(path + ".pattern", "a string", pattern->type_name(), "mend it");
    const std::string& text = pattern->text();
    if (const Status checked = check_regex(text, where_ + ": " + path + ".pattern"); !checked)
      throw Failure(checked.error());
    // Such characters are written with a backslash in JSON, which a pattern's text isn't.
    for (const char* hidden : {"\"", "\\\\", "\\n", "\\r", "\\t", "\\f", "\\v", "\\x", "\\u"}) {
      if (text.find(hidden) != std::string::npos) {
        refuse(path + ".pattern", "no quotes, backslashes or control characters", hidden, "leave it out");
      }
    }
  }

  const Json& root_;
  SchemaTypes types_;
  std::string where_;
  std::size_t count_ = 0;
  std::int64_t repeats_ = 0;
  std::unordered_set<const Json*> schemas_;
  std::vector<std::pair<const Json*, std::string>> nodes_, refs_;
};

}  // namespace

Result<std::string> check_schema(std::string_view text, const std::string& where) {
  if (text.size() > kLongest) {
    return data_error(where, "a schema of at most " + std::to_string(kLongest) + " bytes", std::to_string(text.size()),
                      "make it smaller");
  }
  const Result<Json> root = io::parse_json(text, where);
  if (!root) return root.error();
  return catching([&] { return Checker(*root, where).run().dump(); });
}

}  // namespace tern::engine
