#include "tokenizer/tokenizer_config.h"

#include "io/json_field.h"

namespace tern::tokenizer {

namespace {

using io::JsonField;

constexpr const char* kCorrectFile = "fetch the file again, or correct it";

// A token is a string, or an object with its content.
std::string token_content(const JsonField& json) {
  return std::string(json.json().is_object() ? json.at("content").text() : json.text());
}

RoleToken* role_of(std::string_view key, TokenizerConfig& config) {
  if (key == "bos_token") return &config.bos;
  if (key == "eos_token") return &config.eos;
  if (key == "unk_token") return &config.unk;
  return key == "pad_token" ? &config.pad : nullptr;
}

// A template, or a list of {"name", "template"}.
void read_chat_template(const JsonField& json, TokenizerConfig& config) {
  if (json.json().is_string()) {
    config.chat_template = json.text();
    return;
  }
  for (const JsonField& entry : json.items()) {
    std::string name(entry.at("name").text());
    std::string text(entry.at("template").text());
    if (name == "default") {
      config.chat_template = std::move(text);
    } else {
      config.named_chat_templates.emplace_back(std::move(name), std::move(text));
    }
  }
}

void read_limit(const JsonField& json, TokenizerConfig& config) {
  // "No limit" is written as 1e30, which is no 64-bit integer.
  constexpr double kAbsurd = 1e15;
  const double limit = json.number();
  config.model_max_length = limit >= 1 && limit < kAbsurd ? static_cast<std::int64_t>(limit) : 0;
}

}  // namespace

void read_tokenizer_config(std::string_view text, const std::string& where, TokenizerConfig& config) {
  const io::Json document = io::parse_json(text, where).value();
  const JsonField json(document, where, kCorrectFile);
  for (const io::Json::Member& one : json.object()) {
    if (one.value.is_null()) continue;
    const std::string& key = one.key;
    const JsonField value = json.member(one);
    if (RoleToken* role = role_of(key, config)) {
      role->content = token_content(value);
    } else if (key == "chat_template") {
      read_chat_template(value, config);
    } else if (key == "model_max_length") {
      read_limit(value, config);
    } else if (key == "clean_up_tokenization_spaces") {
      config.clean_up_tokenization_spaces = value.boolean();
    } else if (key == "tokenizer_class") {
      config.tokenizer_class = value.text();
    } else {
      config.extra.emplace_back(key, one.value.dump());
    }
  }
}

void read_special_tokens_map(std::string_view text, const std::string& where, TokenizerConfig& config) {
  const io::Json document = io::parse_json(text, where).value();
  const JsonField json(document, where, kCorrectFile);
  for (const io::Json::Member& one : json.object()) {
    RoleToken* role = role_of(one.key, config);
    if (role != nullptr && !one.value.is_null() && role->content.empty())
      role->content = token_content(json.member(one));
  }
}

}  // namespace tern::tokenizer
