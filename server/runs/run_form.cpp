#include "server/runs/run_form.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "server/json_body.h"

namespace tern::server {
namespace {

using io::Json;

bool has_field(const RunForm& form, std::string_view name) {
  return std::ranges::any_of(form.groups, [&](const FormGroup& group) {
    return std::ranges::any_of(group.fields, [&](const FormField& field) { return field.name == name; });
  });
}

// One word of a value. It can't become a flag of its own.
std::string word_of(JsonBody& flags, const std::string& name, const Json& value) {
  if (value.is_string() && !value.text().starts_with("--")) return value.text();
  if (value.is_boolean() || value.is_number()) return value.dump();
  throw flags.wrong(name, "texts that begin with no --");
}

}  // namespace

Json form_json(const RunForm& form) {
  Json groups = Json::array();
  for (const FormGroup& group : form.groups) {
    Json fields = Json::array();
    for (const FormField& field : group.fields) {
      Json one = Json::object();
      one["name"] = field.name;
      one["type"] = field.type;
      one["default"] = field.fallback;
      one["computed"] = field.computed;
      one["help"] = field.help;
      one["choices"] = Json(field.choices);
      fields.push_back(std::move(one));
    }
    Json one = Json::object();
    one["title"] = group.title;
    one["fields"] = std::move(fields);
    groups.push_back(std::move(one));
  }
  Json out = Json::object();
  out["groups"] = std::move(groups);
  return out;
}

FormValues form_values(const RunForm& form, const std::string& text) {
  JsonBody body(text);
  auto flags = body.object("flags");
  if (!flags) throw body.wrong("flags", "an object of flags and their values");
  body.finish();
  FormValues values;
  for (const auto& [name, value] : flags->json().items()) {
    if (!has_field(form, name)) {
      throw Failure(
          usage_error(cat("--", name, " isn't a field of the form"), "remove it, or run the command in a shell"));
    }
    std::vector<std::string> words;
    if (value.is_array()) {
      for (const Json& one : value) words.push_back(word_of(*flags, name, one));
    } else {
      words.push_back(word_of(*flags, name, value));
    }
    values.emplace_back(name, std::move(words));
  }
  return values;
}

}  // namespace tern::server
