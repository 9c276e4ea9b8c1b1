// JSON text to values and back.
#include "io/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/strings.h"
#include "io/mapped_file.h"

namespace tern::io {
namespace {

using Library = nlohmann::ordered_json;

std::string place(std::string_view text, std::size_t byte, const std::string& name) {
  const std::size_t at = std::min(byte, text.size());
  const auto before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return cat(name, ":", static_cast<std::int64_t>(line), ":", at - start + (at < text.size() ? 1 : 0));
}

// Builds the value itself, as the library's own builder searches the whole object for each new key.
class Builder : public nlohmann::json_sax<Library> {
 public:
  Builder(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Library::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    Frame& frame = stack_.back();
    if (!frame.keys.insert(value).second) {
      error_ = data_error(cat(name_, ": key \"", value, "\""), "each key once", "the key twice in one object",
                          "keep one of the two");
      return false;
    }
    frame.key = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& why) override {
    std::string message = why.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...; expected ..."
    const std::size_t colon = message.find(": ");
    if (colon != std::string::npos) message.erase(0, colon + 2);
    std::string found = position > text_.size() ? "the end of the text" : cat("\"", token.substr(0, 40), "\"");
    error_ = data_error(place(text_, position == 0 ? 0 : position - 1, name_), "JSON", cat(found, " (", message, ")"),
                        "correct the text there");
    return false;
  }

  [[nodiscard]] const Error& error() const { return *error_; }
  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json* value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  template <typename T>
  bool add(T&& value) {
    place_value(Json(std::forward<T>(value)));
    return true;
  }

  Json* place_value(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = stack_.back();
    if (frame.value->is_array()) return &frame.value->push_back(std::move(value));
    return &frame.value->append(std::move(frame.key), std::move(value));
  }

  bool open(Json value) {
    if (stack_.size() >= static_cast<std::size_t>(kMaxNesting)) {
      error_ = data_error(name_, cat("JSON nested at most ", kMaxNesting, " deep"), "deeper nesting", "nest it less");
      return false;
    }
    stack_.push_back({place_value(std::move(value)), {}, {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  Json root_;
  std::vector<Frame> stack_;
  std::optional<Error> error_;
};

// The library writes scalars: what other programs read stays as it always was, to the byte.
void append_quoted(std::string& out, std::string_view text, bool ascii) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
  out +=
      plain ? cat('"', text, '"') : Library(std::string(text)).dump(-1, ' ', ascii, Library::error_handler_t::replace);
}

struct Style {
  int indent = -1;
  bool ascii = false;
};

void append(std::string& out, const Json& json, const Style& style, std::size_t level);

void new_line(std::string& out, const Style& style, std::size_t level) {
  if (style.indent < 0) return;
  out += '\n';
  out.append(level * static_cast<std::size_t>(style.indent), ' ');
}

void append_structure(std::string& out, const Json& json, const Style& style, std::size_t level) {
  out += json.is_object() ? '{' : '[';
  bool first = true;
  const auto begin = [&] {
    if (!first) out += ',';
    first = false;
    new_line(out, style, level + 1);
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      begin();
      append_quoted(out, key, style.ascii);
      out += style.indent < 0 ? ":" : ": ";
      append(out, value, style, level + 1);
    }
  } else {
    for (const Json& item : json) {
      begin();
      append(out, item, style, level + 1);
    }
  }
  if (!first) new_line(out, style, level);
  out += json.is_object() ? '}' : ']';
}

void append(std::string& out, const Json& json, const Style& style, std::size_t level) {
  if (json.is_array() || json.is_object()) {
    append_structure(out, json, style, level);
  } else if (json.is_string()) {
    append_quoted(out, json.text(), style.ascii);
  } else if (json.is_null()) {
    out += "null";
  } else if (json.is_boolean()) {
    out += json.get<bool>() ? "true" : "false";
  } else if (json.is_number_float()) {
    out += Library(json.get<double>()).dump();
  } else if (json.is_number_unsigned()) {
    append_text(out, json.get<std::uint64_t>());
  } else {
    append_text(out, json.get<std::int64_t>());
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& name) {
  Builder builder(text, name);
  if (!Library::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  return builder.take();
}

Result<Json> read_json_file(const std::filesystem::path& path) {
  auto text = read_text_file(path);
  if (!text) return text.error();
  return parse_json(*text, path.string());
}

std::string Json::dump(int indent) const {
  std::string out;
  io::append(out, *this, {indent, false}, 0);
  return out;
}

std::string Json::dump_ascii() const {
  std::string out;
  io::append(out, *this, {-1, true}, 0);
  return out;
}

std::string write_json(const Json& value) { return value.dump(2) + "\n"; }

}  // namespace tern::io
