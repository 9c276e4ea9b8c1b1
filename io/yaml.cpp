#include "io/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <limits>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace tern::io {
namespace {

constexpr std::size_t kMaxNodes = 1'000'000;  // aliases can make a small text enormous

std::string place(const std::string& name, const YAML::Mark& mark) {
  if (mark.line < 0) return name;
  return cat(name, ":", mark.line + 1, ":", mark.column + 1);
}

template <typename Number>
bool read_number(std::string_view text, Number& value, int base = 10) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return code == std::errc() && end == text.data() + text.size();
}

bool read_float(std::string_view text, double& value) {
  std::string_view digits = text;
  if (!digits.empty() && (digits.front() == '+' || digits.front() == '-')) digits.remove_prefix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (digits.empty() || !((digits.front() >= '0' && digits.front() <= '9') || digits.front() == '.')) return false;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return false;
  if (negative) value = -value;
  return true;
}

Json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const std::string_view unsigned_part =
      text.front() == '+' ? std::string_view(text).substr(1) : std::string_view(text);
  std::int64_t integer = 0;
  std::uint64_t natural = 0;
  if (read_number(unsigned_part, integer)) return integer;
  if (read_number(unsigned_part, natural)) return natural;
  if (text.starts_with("0x") && read_number(std::string_view(text).substr(2), natural, 16)) return natural;
  if (text.starts_with("0o") && read_number(std::string_view(text).substr(2), natural, 8)) return natural;
  double real = 0;
  if (read_float(text, real)) return real;
  return text;
}

// Bytes of the UTF-8 character at `i` (Unicode 15, table 3-7), or 0 where there is none.
std::size_t character_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t k = 2; k < size; ++k) {
    if ((byte(k) & 0xc0U) != 0x80) return 0;
  }
  return size;
}

// YAML is Unicode without control characters but tab and line ends (1.2.2, 5.1); the library takes any bytes.
void require_text(std::string_view text, const std::string& name) {
  std::size_t line = 1;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t size = character_at(text, i);
    const bool control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
    if (control || size == 0) {
      throw Failure(data_error(cat(name, ":", line, ":", i - start + 1), "UTF-8 text",
                               cat(control ? "the control character " : "the byte ", static_cast<int>(byte)),
                               "write the file as UTF-8 text"));
    }
    i += size;
    if (byte == '\n') ++line, start = i;
  }
}

// Builds the value from the parser's events, so that aliases, depth and documents are counted as they come.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  void OnDocumentStart(const YAML::Mark& mark) override { document_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, nullptr, "", 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (tag == "?" || tag.empty()) return add(mark, anchor, plain_scalar(text), text, 1);
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return add(mark, anchor, text, text, 1);
    throw Failure(data_error(place(name_, mark), "a value without a tag", cat("the tag ", tag), "remove the tag"));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw Failure(
          data_error(place(name_, mark), "an alias of a value before it", "an alias of itself", "write the value out"));
    const Anchored known = found->second;
    add(mark, 0, known.value, known.value.is_string() ? known.value.get<std::string>() : std::string(), known.nodes);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Json::array());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Json::object());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  [[nodiscard]] Json take() { return std::move(root_); }
  [[nodiscard]] const YAML::Mark& document() const { return document_; }

 private:
  struct Frame {
    Json value;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    std::size_t nodes;
    bool has_key;
    std::string key;
    std::unordered_set<std::string> keys;
  };
  struct Anchored {
    Json value;
    std::size_t nodes;
  };

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Json value) {
    if (tag.size() > 1)
      throw Failure(data_error(place(name_, mark), "a value without a tag", cat("the tag ", tag), "remove the tag"));
    if (stack_.size() >= static_cast<std::size_t>(kMaxNesting)) {
      throw Failure(data_error(place(name_, mark), cat("YAML nested at most ", kMaxNesting, " deep"), "deeper nesting",
                               "nest it less"));
    }
    if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key) {
      throw Failure(
          data_error(place(name_, mark), "a key that is text", "a list or map", "write the key as plain text"));
    }
    stack_.push_back({std::move(value), mark, anchor, 0, false, {}, {}});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    add(frame.mark, frame.anchor, std::move(frame.value), {}, frame.nodes + 1, true);
  }

  // A whole value: a map's next key, its value, a list's next item, or the document. `nodes` were counted where
  // `counted`; else they are now, as an alias brings all of its value again.
  void add(const YAML::Mark& mark, YAML::anchor_t anchor, Json value, const std::string& text, std::size_t nodes,
           bool counted = false) {
    total_ += counted ? 1 : nodes;
    if (total_ > kMaxNodes)
      throw Failure(data_error(place(name_, mark), cat("at most ", kMaxNodes, " values"), "more, with aliases expanded",
                               "use fewer aliases"));
    if (anchor != 0) anchors_.insert_or_assign(anchor, Anchored{value, nodes});
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    frame.nodes += nodes;
    if (frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else if (!frame.has_key) {
      take_key(frame, mark, value, text);
    } else {
      frame.value.append(std::move(frame.key), std::move(value));
      frame.has_key = false;
    }
  }

  void take_key(Frame& frame, const YAML::Mark& mark, const Json& value, const std::string& text) const {
    if (value.is_array() || value.is_object() || (value.is_null() && text.empty())) {
      throw Failure(
          data_error(place(name_, mark), "a key that is text", "a list, map or null", "write the key as plain text"));
    }
    if (text == "<<")
      throw Failure(data_error(place(name_, mark), "plain keys", "the merge key <<", "write its keys out"));
    if (!frame.keys.insert(text).second) {
      throw Failure(data_error(cat(place(name_, mark), ": key \"", text, "\""), "each key once", "the key twice",
                               "keep one of the two"));
    }
    frame.key = text;
    frame.has_key = true;
  }

  const std::string& name_;
  Json root_;
  YAML::Mark document_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::size_t total_ = 0;
};

}  // namespace

Result<Json> parse_yaml(std::string_view text, const std::string& name) {
  return catching([&]() -> Json {
    require_text(text, name);
    try {
      std::istringstream stream{std::string(text)};
      YAML::Parser parser(stream);
      Builder builder(name);
      if (!parser.HandleNextDocument(builder)) return nullptr;
      // The library stays where it is on some malformed text, and would give the same document for ever.
      Builder second(name);
      if (parser.HandleNextDocument(second)) {
        throw Failure(data_error(place(name, second.document()), "one YAML document", "a second one",
                                 "remove the line --- and what follows it"));
      }
      return builder.take();
    } catch (const YAML::Exception& why) {
      throw Failure(data_error(place(name, why.mark), "YAML", why.msg, "correct the text there"));
    }
  });
}

Result<Json> read_yaml_file(const std::filesystem::path& path) {
  auto text = read_text_file(path);
  if (!text) return text.error();
  return parse_yaml(*text, path.string());
}

}  // namespace tern::io
