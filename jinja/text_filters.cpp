// Filters that take or make text.
#include <algorithm>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

// A filter that is a method of str: `value|name(...)` is str(value).name(...).
Value by_method(Evaluator& evaluator, const Value& value, const char* name, const Arguments& arguments) {
  Value method;
  (void)find_method(value.is_text() ? value : Value(value.str()), name, method);
  return evaluator.call(method, arguments);
}

Value lower_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "lower", arguments);
}
Value upper_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "upper", arguments);
}
Value capitalize_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "capitalize", arguments);
}

Value trim_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  Arguments given;
  if (bound[0]) given.positional.push_back(*bound[0]);
  return by_method(evaluator, value, "strip", given);
}

Value center_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  return by_method(evaluator, value, "center", {{Value(bound.integer(0, 80))}, {}});
}

// Not str.title: a word begins after white space and -({[< only.
Value title_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  const std::string text = value.str();
  std::string out;
  std::size_t begin = 0;
  const auto flush = [&](std::size_t end) {
    if (end > begin) {
      const std::string_view word = std::string_view(text).substr(begin, end - begin);
      const std::size_t head = byte_offset(word, 1);
      out += to_upper(word.substr(0, head)) + to_lower(word.substr(head));
    }
  };
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    if (!is_space(c) && !(c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos)) {
      continue;
    }
    flush(at);
    out.append(text, at, size);
    begin = at + size;
  }
  flush(text.size());
  return evaluator.text(std::move(out));
}

Value replace_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  Arguments given{{Value(bound[0]->str()), Value(bound[1]->str())}, {}};
  if (bound.given(2)) given.positional.push_back(*bound[2]);
  return by_method(evaluator, Value(value.str()), "replace", given);
}

Value string_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return value.is_text() ? value : evaluator.text(value.str());
}

Value escape_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return value.markup() ? value : evaluator.text(html_escape(value.str()), true);
}
Value forceescape_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return evaluator.text(html_escape(value.str()), true);
}
Value safe_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return evaluator.text(value.str(), true);
}

Value striptags_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  std::string text = value.str();
  for (std::size_t open = text.find("<!--"); open != std::string::npos; open = text.find("<!--", open)) {
    const std::size_t close = text.find("-->", open);
    if (close == std::string::npos) break;
    text.erase(open, close + 3 - open);
    evaluator.charge(text.size());
  }
  std::string bare;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '<' ? text.find('>', at) : std::string::npos;
    if (text[at] == '<' && close != std::string::npos) {
      at = close + 1;
    } else {
      bare += text[at++];
    }
  }
  std::string out;
  bool space = false;
  for (std::size_t at = 0, size = 0; at < bare.size(); at += size) {
    const bool blank = is_space(code_point_at(bare, at, size));
    if (!blank) {
      if (space && !out.empty()) out += ' ';
      out.append(bare, at, size);
    }
    space = blank;
  }
  for (const auto& [entity, character] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}) {
    const std::size_t length = std::string_view(entity).size();
    for (std::size_t at = out.find(entity); at != std::string::npos; at = out.find(entity, at + 1)) {
      out.replace(at, length, character);
    }
  }
  return evaluator.text(std::move(out));
}

Value indent_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  std::string indention(4, ' ');
  if (bound[0] && bound[0]->is_text()) {
    indention = bound[0]->text();
  } else if (bound[0]) {
    indention.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 4), 0, 100000)), ' ');
  }
  const std::string text = text_of(value, "the indented text") + "\n";
  const bool blank = bound.flag(2, false);
  std::string out = bound.flag(1, false) ? indention : "";
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) {
      out += '\n';
      if (blank || !line.empty()) out += indention;
    }
    evaluator.charge(line.size() + (first ? 0 : indention.size()));
    out += line;
    first = false;
  }
  return Value(std::move(out), value.markup());
}

Value truncate_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = bound.integer(0, 255), leeway = bound.given(3) ? bound.integer(3, 5) : 5;
  const std::string end = bound[2] ? bound.text(2) : "...";
  const std::string& text = text_of(value, "the truncated text");
  const auto end_length = static_cast<std::int64_t>(code_point_count(end));
  if (length < end_length || leeway < 0) throw Problem{cat("a length of at least ", end_length), cat(length)};
  evaluator.charge(text.size());
  if (static_cast<std::int64_t>(code_point_count(text)) - leeway <= length) return value;
  std::string kept = text.substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!bound.flag(1, false)) {
    const std::size_t space = kept.rfind(' ');
    if (space != std::string::npos) kept.resize(space);
  }
  return evaluator.text(kept + end);
}

Value wordcount_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  const std::string text = value.str();
  evaluator.charge(text.size());
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    const bool word = c == '_' || in_class(c, CharacterClass::alnum);
    count += word && !inside;
    inside = word;
  }
  return Value(count);
}

std::string quoted(std::string_view text, bool query) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
        c == '-' || c == '~' || (c == '/' && !query)) {
      out += c;
    } else if (query && c == ' ') {
      out += '+';
    } else {
      out += {'%', hex[byte >> 4U], hex[byte & 15U]};
    }
  }
  return out;
}

Value urlencode_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_text() || !(value.is_list() || value.is_dict() || value.is_object())) {
    return evaluator.text(quoted(value.str(), false));
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& item) {
    if (!out.empty()) out += '&';
    out += quoted(key.str(), true) + "=" + quoted(item.str(), true);
  };
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict().entries) add(key, item);
  } else {
    for (const Value& pair : evaluator.iterate(value)) {
      const Values two = evaluator.iterate(pair);
      if (two.size() != 2) throw Problem{"pairs to encode", cat(two.size(), " values")};
      add(two[0], two[1]);
    }
  }
  return evaluator.text(std::move(out));
}

Value xmlattr_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("xmlattr", arguments, {"autospace"});
  if (!value.is_dict()) throw Problem{"a dict", cat("a ", value.type_name())};
  std::string out;
  for (const auto& [key, item] : value.dict().entries) {
    if (item.is_none() || item.is_undefined()) continue;
    const std::string& name = text_of(key, "an attribute's name");
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      throw Problem{"an attribute's name without white space, /, > or =", string_repr(name)};
    }
    if (!out.empty() || bound.flag(0, true)) out += ' ';
    out += html_escape(name) + "=\"" + (item.markup() ? item.text() : html_escape(item.str())) + "\"";
  }
  return evaluator.text(std::move(out));
}

Value format_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  if (arguments.keyword.empty()) return percent_format(evaluator, value.str(), Value::tuple(arguments.positional));
  if (!arguments.positional.empty()) throw Problem{"positional or named arguments", "both"};
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, item] : arguments.keyword) named.emplace_back(Value(name), item);
  return percent_format(evaluator, value.str(), make_dict(std::move(named)));
}

// textwrap.wrap's chunks: words, with the white space between them apart, cut behind hyphens between letters.
std::vector<std::string> wrap_chunks(std::string_view line, bool on_hyphens) {
  std::vector<std::string> out;
  const auto points = code_points(line);
  const auto blank = [&](std::size_t i) {
    return points[i].size() == 1 && std::string_view("\t\n\v\f\r ").find(points[i][0]) != std::string_view::npos;
  };
  const auto letter = [&](std::size_t i) {
    std::size_t size = 0;
    return i < points.size() && in_class(code_point_at(points[i], 0, size), CharacterClass::alpha);
  };
  std::string chunk;
  bool chunk_blank = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!chunk.empty() && blank(i) != chunk_blank) out.push_back(std::exchange(chunk, {}));
    chunk_blank = blank(i);
    chunk += points[i];
    const bool hyphen = points[i] == "-" && i >= 2 && letter(i - 1) && letter(i - 2) && letter(i + 1) && letter(i + 2);
    if (on_hyphens && hyphen) out.push_back(std::exchange(chunk, {}));
  }
  if (!chunk.empty()) out.push_back(std::move(chunk));
  return out;
}

std::vector<std::string> wrapped(std::vector<std::string> chunks, std::size_t width, bool break_long) {
  const auto blank = [](const std::string& chunk) { return strip(chunk, true, true).empty(); };
  std::reverse(chunks.begin(), chunks.end());
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    std::vector<std::string> now;
    std::size_t used = 0;
    if (!lines.empty() && blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && used + code_point_count(chunks.back()) <= width) {
      used += code_point_count(chunks.back());
      now.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && code_point_count(chunks.back()) > width) {
      if (break_long) {
        const std::size_t cut = byte_offset(chunks.back(), width - used);
        now.push_back(chunks.back().substr(0, cut));
        chunks.back().erase(0, cut);
      } else if (now.empty()) {
        now.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!now.empty() && blank(now.back())) now.pop_back();
    if (!now.empty()) lines.push_back(join(now, ""));
  }
  return lines;
}

Value wordwrap_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const std::int64_t width = bound.integer(0, 79);
  if (width <= 0) throw Problem{"a width above 0", cat(width)};
  const std::string newline = bound.given(2) ? bound.text(2) : "\n";
  std::vector<std::string> paragraphs;
  const std::string& text = text_of(value, "the wrapped text");
  evaluator.charge(text.size() * 8);
  for (const std::string_view line : split_lines(text, false)) {
    paragraphs.push_back(
        join(wrapped(wrap_chunks(line, bound.flag(3, true)), static_cast<std::size_t>(width), bound.flag(1, true)),
             newline));
  }
  return evaluator.text(join(paragraphs, newline));
}

}  // namespace

std::vector<FilterRow> text_filters() {
  return {{"lower", lower_filter},
          {"upper", upper_filter},
          {"capitalize", capitalize_filter},
          {"trim", trim_filter},
          {"center", center_filter},
          {"title", title_filter},
          {"replace", replace_filter},
          {"string", string_filter},
          {"escape", escape_filter},
          {"e", escape_filter},
          {"forceescape", forceescape_filter},
          {"safe", safe_filter},
          {"striptags", striptags_filter},
          {"indent", indent_filter},
          {"truncate", truncate_filter},
          {"wordcount", wordcount_filter},
          {"urlencode", urlencode_filter},
          {"xmlattr", xmlattr_filter},
          {"format", format_filter},
          {"wordwrap", wordwrap_filter},
          {"tojson", to_json}};
}

}  // namespace tern::jinja
