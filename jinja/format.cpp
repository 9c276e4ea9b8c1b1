// Python's two string formattings, "%s" % values and "{}".format(values), as far as chat templates go: values as they
// print, in order. Widths, precisions and conversions to digits are no part of any published template.
#include "base/strings.h"
#include "jinja/builtins.h"

namespace tern::jinja {
namespace {

const Value& next_of(const Values& values, std::size_t& next) {
  if (next >= values.size()) throw Problem{"a value for each field of a format", cat(values.size(), " values")};
  return values[next++];
}

}  // namespace

Value percent_format(Evaluator& evaluator, std::string_view format, const Values& values) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const char type = ++at < format.size() ? format[at] : '\0';
    if (type == '%') {
      out += '%';
    } else if (type == 's') {
      out += next_of(values, next).str();
    } else if (type == 'd') {
      const Value& value = next_of(values, next);
      out += cat(integer_of(value, "a number for `%d`"));
    } else {
      throw Problem{"one of the conversions %s, %d and %%", string_repr(format)};
    }
    evaluator.charge(64);
    evaluator.step(out.size() / 4096);
  }
  if (next < values.size()) throw Problem{"as many values as the format takes", "more"};
  return evaluator.text(std::move(out));
}

std::string brace_format(Evaluator& evaluator, std::string_view format, const Values& values) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char c = format[at], then = at + 1 < format.size() ? format[at + 1] : '\0';
    if (c == '{' && then == '}') {
      out += next_of(values, next).str();
      evaluator.charge(64);
      evaluator.step(out.size() / 4096);
    } else if (c == '{' || c == '}') {
      if (then != c) throw Problem{"fields written `{}` in a format", string_repr(format)};
      out += c;
    } else {
      out += c;
      continue;
    }
    ++at;
  }
  return out;
}

}  // namespace tern::jinja
