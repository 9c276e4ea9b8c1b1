#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/schema_check.h"
#include "io/json.h"

namespace tern::engine {

namespace {

using io::Json;

struct FormatRow {
  std::string_view type;
  std::vector<std::string_view> keys;  // beside "type"
};

const std::vector<FormatRow>& formats() {
  static const std::vector<FormatRow> rows = {
      {"const_string", {"value"}},
      {"json_schema", {"json_schema"}},
      {"any_text", {}},
      {"regex", {"pattern"}},
      {"grammar", {"grammar"}},
      {"sequence", {"elements"}},
      {"or", {"elements"}},
      {"tag", {"begin", "content", "end"}},
      {"triggered_tags", {"triggers", "tags", "at_least_one", "stop_after_first"}},
      {"tags_with_separator", {"tags", "separator", "at_least_one", "stop_after_first"}},
  };
  return rows;
}

class TagChecker {
 public:
  explicit TagChecker(std::string where) : where_(std::move(where)) {}

  Json format(const Json& node, const std::string& path, int depth) const {
    const Json* type = node.find("type");
    const FormatRow* row = nullptr;
    for (const FormatRow& one : formats()) {
      if (type != nullptr && type->is_string() && type->text() == one.type) row = &one;
    }
    if (row == nullptr) {
      refuse(path + ".type",
             "const_string, json_schema, any_text, regex, grammar, sequence, or, tag, triggered_tags or "
             "tags_with_separator",
             type == nullptr ? "none" : type->dump().substr(0, 60));
    }
    if (depth > 32) refuse(path, "at most 32 formats in formats", "more");
    Json out = Json::object();
    for (const auto& [key, value] : node.items()) {
      const bool known = key == "type" || std::find(row->keys.begin(), row->keys.end(), key) != row->keys.end();
      if (!known) refuse(path, "members that are enforced", "\"" + key + "\"");
      out.append(key, member(key, value, path + "." + key, depth));
    }
    return out;
  }

  // vLLM's: {"structures": [{"begin", "schema", "end"}], "triggers": [...]}.
  Json older(const Json& root) const {
    Json tags = Json::array();
    const Json& structures = root["structures"];
    if (!structures.is_array()) refuse("$.structures", "an array", structures.type_name());
    for (const Json& one : structures) {
      for (const char* key : {"begin", "schema", "end"}) {
        if (!one.contains(key)) refuse("$.structures", "objects with begin, schema and end", one.dump().substr(0, 60));
      }
      Json tag = {{"type", "tag"}, {"begin", one["begin"]}, {"end", one["end"]}};
      Json content = Json::object();
      content.append("type", "json_schema");
      content.append("json_schema", one["schema"]);
      tag.append("content", std::move(content));
      tags.push_back(std::move(tag));
    }
    Json out = Json::object();
    out.append("type", "triggered_tags");
    out.append("triggers", root.contains("triggers") ? root["triggers"] : Json::array());
    out.append("tags", std::move(tags));
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& path, std::string_view expected, std::string_view found) const {
    throw Failure(data_error(where_ + ": " + path, expected, found, "mend the tag"));
  }

  Json member(const std::string& key, const Json& value, const std::string& path, int depth) const {
    const std::string place = where_ + ": " + path;
    if (key == "json_schema") return io::parse_json(check_schema(value.dump(), place).value(), place).value();
    if (key == "content") return format(value, path, depth + 1);
    if (key == "elements" || key == "tags") {
      if (!value.is_array()) refuse(path, "an array of formats", value.type_name());
      Json out = Json::array();
      for (const Json& one : value) out.push_back(format(one, path, depth + 1));
      return out;
    }
    if (key == "pattern" || key == "grammar") {
      if (!value.is_string()) refuse(path, "a string", value.type_name());
      (void)(key == "pattern" ? check_regex(value.text(), place) : check_ebnf(value.text(), place)).value();
    }
    return value;
  }

  std::string where_;
};

}  // namespace

Result<std::string> check_structural_tag(std::string_view text, const std::string& where) {
  constexpr std::size_t longest = std::size_t{1} << 18;
  if (text.size() > longest) {
    return data_error(where, "at most " + std::to_string(longest) + " bytes", std::to_string(text.size()),
                      "make it smaller");
  }
  const Result<Json> root = io::parse_json(text, where);
  if (!root) return root.error();
  return catching([&] {
    const TagChecker checker(where);
    Json out = Json::object();
    out.append("type", "structural_tag");
    if (root->contains("structures")) {
      out.append("format", checker.format(checker.older(*root), "$", 0));
    } else if (root->contains("format")) {
      out.append("format", checker.format((*root)["format"], "$.format", 0));
    } else {
      throw Failure(data_error(where, "an object with \"format\"", root->dump().substr(0, 60), "mend the tag"));
    }
    return out.dump();
  });
}

}  // namespace tern::engine
