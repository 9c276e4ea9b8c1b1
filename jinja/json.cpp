// json.dumps as transformers' tojson calls it: nothing escaped for HTML, ensure_ascii off unless asked for.
#include <algorithm>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

struct Style {
  bool ascii = false, sort_keys = false, indented = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};

class Writer {
 public:
  Writer(Evaluator& evaluator, const Style& style) : evaluator_(evaluator), style_(style) {}

  void write(const Value& value, unsigned level) {
    evaluator_.step();
    if (value.is_text()) {
      write_text(value.text());
    } else if (value.is_none()) {
      out += "null";
    } else if (value.is_bool()) {
      out += value.integer() ? "true" : "false";
    } else if (value.is_int()) {
      append_text(out, value.integer());
    } else if (value.is_float()) {
      out += number(value.real());
    } else if (value.is_list()) {
      write_list(value.items(), level);
    } else if (value.is_dict()) {
      write_dict(value.dict(), level);
    } else {
      throw Problem{"a value that JSON can hold", cat("a ", value.type_name())};
    }
    evaluator_.charge(out.size() - charged_);
    charged_ = out.size();
  }

  std::string out;

 private:
  static std::string number(double value) {
    std::string text = float_repr(value);
    if (text == "nan") return "NaN";
    if (text == "inf") return "Infinity";
    return text == "-inf" ? "-Infinity" : text;
  }

  void new_line(unsigned level) {
    if (!style_.indented) return;
    out += '\n';
    for (unsigned i = 0; i < level; ++i) out += style_.indent;
  }

  void write_list(const Values& items, unsigned level) {
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += style_.item_separator;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out += ']';
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is_bool()) return key.integer() ? "true" : "false";
    if (key.is_int()) return cat(key.integer());
    if (key.is_float()) return number(key.real());
    throw Problem{"a string, number, bool or None as JSON's key", cat("a ", key.type_name())};
  }

  void write_dict(const Dict& dict, unsigned level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return compare(a->first, b->first, "<") == -1; });
    }
    out += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i) out += style_.item_separator;
      new_line(level + 1);
      write_text(key_text(entries[i]->first));
      out += style_.key_separator;
      write(entries[i]->second, level + 1);
    }
    if (!entries.empty()) new_line(level);
    out += '}';
  }

  void write_escape(std::uint32_t unit) {
    static constexpr char hex[] = "0123456789abcdef";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += hex[unit >> shift & 15U];
  }

  void write_text(std::string_view text) {
    out += '"';
    for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
      const std::uint32_t c = code_point_at(text, at, size);
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\f':
          out += "\\f";
          break;
        case '\b':
          out += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
            write_escape(c);
          } else if (style_.ascii && c >= 0x10000) {
            write_escape(0xD800 + ((c - 0x10000) >> 10U));
            write_escape(0xDC00 + ((c - 0x10000) & 0x3FFU));
          } else {
            out += text.substr(at, size);
          }
      }
    }
    out += '"';
  }

  Evaluator& evaluator_;
  const Style& style_;
  std::size_t charged_ = 0;
};

}  // namespace

Value to_json(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  style.ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.given(1)) {
    style.indented = true;
    style.item_separator.assign(1, ',');
    if (bound[1]->is_text()) {
      style.indent = bound[1]->text();
    } else {
      style.indent.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(1, 0), 0, 1000)), ' ');
    }
  }
  if (bound.given(2)) {
    const Values pair = evaluator.iterate(*bound[2]);
    if (pair.size() != 2) throw Problem{"two separators", cat(pair.size())};
    style.item_separator = text_of(pair[0], "an item separator");
    style.key_separator = text_of(pair[1], "a key separator");
  }
  Writer writer(evaluator, style);
  writer.write(value, 0);
  return Value(std::move(writer.out));
}

}  // namespace tern::jinja
