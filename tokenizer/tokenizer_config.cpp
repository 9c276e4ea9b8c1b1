#include "tokenizer/tokenizer_config.h"

#include "tokenizer/json_read.h"

namespace tern::tokenizer {

namespace {

// A token is a string, or an object with its content.
std::string token_content(const JsonValue& json) {
  return std::string(json.is_object() ? json.at("content").text() : json.text());
}

RoleToken* role_of(std::string_view key, TokenizerConfig& config) {
  if (key == "bos_token") return &config.bos;
  if (key == "eos_token") return &config.eos;
  if (key == "unk_token") return &config.unk;
  return key == "pad_token" ? &config.pad : nullptr;
}

// A template, or a list of {"name", "template"}.
void read_chat_template(const JsonValue& json, TokenizerConfig& config) {
  if (json.is_string()) {
    config.chat_template = std::string(json.text());
    return;
  }
  std::size_t index = 0;
  for (const simdjson::dom::element element : json.array()) {
    const JsonValue entry = json.child(element, index++);
    std::string name(entry.at("name").text());
    std::string text(entry.at("template").text());
    if (name == "default") {
      config.chat_template = std::move(text);
    } else {
      config.named_chat_templates.emplace_back(std::move(name), std::move(text));
    }
  }
}

void read_limit(const JsonValue& json, TokenizerConfig& config) {
  // "No limit" is written as 1e30, which is no 64-bit integer.
  constexpr double kAbsurd = 1e15;
  const double limit = json.number();
  config.model_max_length = limit >= 1 && limit < kAbsurd ? static_cast<std::int64_t>(limit) : 0;
}

// simdjson refuses integers beyond 64 bits, such as transformers' int(1e30): written with an exponent they are numbers.
std::string with_short_numbers(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\' && i + 1 < json.size()) {
        out += c;
        out += json[++i];
        continue;
      }
      in_string = c != '"';
      out += c;
      continue;
    }
    std::size_t digits = 0;
    while (i + digits < json.size() && json[i + digits] >= '0' && json[i + digits] <= '9') ++digits;
    const char before = i == 0 ? ' ' : json[i - 1];
    const char after = i + digits < json.size() ? json[i + digits] : ' ';
    const bool whole = before != '.' && before != 'e' && before != 'E' && before != '+' && after != '.' &&
                       after != 'e' && after != 'E';
    if (digits > 18 && whole) {
      out += cat(json.substr(i, 1), ".", json.substr(i + 1, 16), "e", digits - 1);
      i += digits - 1;
      continue;
    }
    if (digits > 0) {
      out += json.substr(i, digits);
      i += digits - 1;
      continue;
    }
    in_string = c == '"';
    out += c;
  }
  return out;
}

}  // namespace

void read_tokenizer_config(std::string_view text, const std::string& where, TokenizerConfig& config) {
  simdjson::dom::parser parser;
  const JsonValue json = parse_json(parser, with_short_numbers(text), where);
  for (const auto member : json.object()) {
    const std::string_view key = member.key;
    const auto value = json.get(key);
    if (!value) continue;
    if (RoleToken* role = role_of(key, config)) {
      role->content = token_content(*value);
    } else if (key == "chat_template") {
      read_chat_template(*value, config);
    } else if (key == "model_max_length") {
      read_limit(*value, config);
    } else if (key == "clean_up_tokenization_spaces") {
      config.clean_up_tokenization_spaces = value->boolean();
    } else if (key == "tokenizer_class") {
      config.tokenizer_class = std::string(value->text());
    } else {
      config.extra.emplace_back(std::string(key), simdjson::minify(value->raw()));
    }
  }
}

void read_special_tokens_map(std::string_view text, const std::string& where, TokenizerConfig& config) {
  simdjson::dom::parser parser;
  const JsonValue json = parse_json(parser, text, where);
  for (const auto member : json.object()) {
    RoleToken* role = role_of(member.key, config);
    const auto value = json.get(member.key);
    if (role != nullptr && value && role->content.empty()) role->content = token_content(*value);
  }
}

}  // namespace tern::tokenizer
