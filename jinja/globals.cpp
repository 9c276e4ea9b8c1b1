// Jinja's global functions, with those that transformers adds.
#include <array>

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tern::jinja {
namespace {

// cycler("a", "b"): .next() and .current go round.
class Cycler final : public Object {
 public:
  explicit Cycler(const Value& items) : Object(items.depth() + 1), items_(items) {}
  [[nodiscard]] std::string type_name() const override { return "Cycler"; }
  [[nodiscard]] bool attribute(Evaluator&, std::string_view name, Value& out) override;

 private:
  Value items_;
  std::shared_ptr<std::size_t> at_ = std::make_shared<std::size_t>(0);
};

bool Cycler::attribute(Evaluator&, std::string_view name, Value& out) {
  if (name == "current") {
    out = items_.items()[*at_];
    return true;
  }
  if (name != "next" && name != "reset") return false;
  const bool next = name == "next";
  out = Value(ObjectPtr(std::make_shared<Builtin>(
      std::string(name),
      [items = items_, at = at_, next](Evaluator&, const Arguments&) {
        const Value now = items.items()[*at];
        *at = next ? (*at + 1) % items.items().size() : 0;
        return next ? now : Value();
      },
      items_.depth() + 1)));
  return true;
}

Value make_namespace(Evaluator& evaluator, const Arguments& arguments) {
  auto dict = std::make_shared<Dict>();
  if (arguments.positional.size() > 1)
    throw Problem{"at most one argument for namespace", cat(arguments.positional.size())};
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional.front();
    if (!first.is_dict()) throw Problem{"a dict for namespace", cat("a ", first.type_name())};
    for (const auto& [key, value] : first.dict().entries) dict->set(key, value);
  }
  for (const auto& [name, value] : arguments.keyword) dict->set(Value(name), value);
  for (const auto& [key, value] : dict->entries) {
    if (key.is_text() && key.text().starts_with("_")) {
      throw Problem{"an attribute without a leading underscore", string_repr(key.text())};
    }
  }
  evaluator.charge(sizeof(Namespace) + dict->entries.size() * 2 * sizeof(Value));
  ObjectPtr space = std::make_shared<Namespace>(dict);
  evaluator.keep(space);
  return Value(space);
}

Value make_dictionary(Evaluator& evaluator, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) throw Problem{"at most one argument for dict", cat(arguments.positional.size())};
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional.front();
    if (first.is_dict()) {
      entries = first.dict().entries;
    } else {
      for (const Value& pair : evaluator.iterate(first)) {
        Values two = evaluator.iterate(pair);
        if (two.size() != 2) throw Problem{"pairs of key and value for dict", cat(two.size(), " values")};
        entries.emplace_back(std::move(two[0]), std::move(two[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) entries.emplace_back(Value(name), value);
  evaluator.charge(entries.size() * 2 * sizeof(Value));
  return make_dict(std::move(entries));
}

Value make_range(Evaluator& evaluator, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (!arguments.keyword.empty() || given.empty() || given.size() > 3) {
    throw Problem{"range(stop) or range(start, stop, step)",
                  cat(given.size() + arguments.keyword.size(), " arguments")};
  }
  const auto at = [&](std::size_t i) { return integer_of(given[i], "an integer for range"); };
  const std::int64_t step = given.size() == 3 ? at(2) : 1;
  if (step == 0) throw Problem{"a range's step other than 0", "0"};
  evaluator.charge(sizeof(Range));
  return Value(ObjectPtr(std::make_shared<Range>(given.size() > 1 ? at(0) : 0, at(given.size() > 1 ? 1 : 0), step)));
}

Value make_cycler(Evaluator& evaluator, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Problem{"at least one item for cycler", "none"};
  return Value(ObjectPtr(std::make_shared<Cycler>(evaluator.list(arguments.positional))));
}

Value make_joiner(Evaluator&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  Value separator = bound[0] ? *bound[0] : Value(", ");
  return Value(ObjectPtr(std::make_shared<Builtin>(
      "joiner",
      [separator, used = std::make_shared<bool>(false)](Evaluator&, const Arguments&) {
        if (*used) return separator;
        *used = true;
        return Value("");
      },
      separator.depth() + 1)));
}

Value raise_exception(Evaluator&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Problem{"what the template asks for", bound[0]->str()};
}

Value strftime_now(Evaluator& evaluator, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  return evaluator.text(format_time(evaluator.clock(), bound.text(0)));
}

bool leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int day_of_year(const Clock& clock) {
  static constexpr std::array<int, 12> before{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  return before[static_cast<std::size_t>(clock.month - 1)] + clock.day + (clock.month > 2 && leap(clock.year));
}

// 0 is Sunday (Sakamoto's method).
int day_of_week(const Clock& clock) {
  static constexpr std::array<int, 12> shift{0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
  const int year = clock.year - (clock.month < 3);
  return (year + year / 4 - year / 100 + year / 400 + shift[static_cast<std::size_t>(clock.month - 1)] + clock.day) % 7;
}

std::string padded(int value, int width, char fill = '0') {
  std::string digits = cat(value);
  return digits.size() < static_cast<std::size_t>(width)
             ? std::string(static_cast<std::size_t>(width) - digits.size(), fill) + digits
             : digits;
}

constexpr std::array<std::string_view, 12> months{"January",   "February", "March",    "April",
                                                  "May",       "June",     "July",     "August",
                                                  "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 7> days{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                               "Thursday", "Friday", "Saturday"};

// ISO 8601's year and week.
std::pair<int, int> iso_week(const Clock& clock) {
  const int weekday = (day_of_week(clock) + 6) % 7 + 1;  // Monday 1
  int year = clock.year, week = (day_of_year(clock) - weekday + 10) / 7;
  const auto weeks_of = [](int y) {
    const int first = day_of_week(Clock{y, 1, 1});
    return first == 4 || (leap(y) && first == 3) ? 53 : 52;
  };
  if (week < 1) return {year - 1, weeks_of(year - 1)};
  if (week > weeks_of(year)) return {year + 1, 1};
  return {year, week};
}

// False for a letter that strftime lacks.
bool append_field(std::string& out, const Clock& clock, char letter, bool bare) {
  const std::string_view month = months[static_cast<std::size_t>(clock.month - 1)];
  const std::string_view day = days[static_cast<std::size_t>(day_of_week(clock))];
  const int hour12 = clock.hour % 12 == 0 ? 12 : clock.hour % 12;
  const int two = bare ? 1 : 2;
  switch (letter) {
    case 'Y':
      out += padded(clock.year, 1);
      break;
    case 'C':
      out += padded(clock.year / 100, two);
      break;
    case 'y':
      out += padded(clock.year % 100, two);
      break;
    case 'm':
      out += padded(clock.month, two);
      break;
    case 'd':
      out += padded(clock.day, two);
      break;
    case 'e':
      out += padded(clock.day, two, ' ');
      break;
    case 'H':
      out += padded(clock.hour, two);
      break;
    case 'I':
      out += padded(hour12, two);
      break;
    case 'M':
      out += padded(clock.minute, two);
      break;
    case 'S':
      out += padded(clock.second, two);
      break;
    case 'f':
      out += padded(clock.microsecond, 6);
      break;
    case 'j':
      out += padded(day_of_year(clock), bare ? 1 : 3);
      break;
    case 'p':
      out += clock.hour < 12 ? "AM" : "PM";
      break;
    case 'B':
      out += month;
      break;
    case 'b':
    case 'h':
      out += month.substr(0, 3);
      break;
    case 'A':
      out += day;
      break;
    case 'a':
      out += day.substr(0, 3);
      break;
    case 'w':
      out += cat(day_of_week(clock));
      break;
    case 'u':
      out += cat((day_of_week(clock) + 6) % 7 + 1);
      break;
    case 'U':
      out += padded((day_of_year(clock) + 6 - day_of_week(clock)) / 7, two);
      break;
    case 'W':
      out += padded((day_of_year(clock) + 6 - (day_of_week(clock) + 6) % 7) / 7, two);
      break;
    case 'V':
      out += padded(iso_week(clock).second, two);
      break;
    case 'G':
      out += cat(iso_week(clock).first);
      break;
    case 'D':
    case 'x':
      out += format_time(clock, "%m/%d/%y");
      break;
    case 'F':
      out += format_time(clock, "%Y-%m-%d");
      break;
    case 'T':
    case 'X':
      out += format_time(clock, "%H:%M:%S");
      break;
    case 'R':
      out += format_time(clock, "%H:%M");
      break;
    case 'r':
      out += format_time(clock, "%I:%M:%S %p");
      break;
    case 'c':
      out += format_time(clock, "%a %b %e %H:%M:%S %Y");
      break;
    case 'z':
    case 'Z':
      break;  // datetime.now() has no time zone
    case 'n':
      out += '\n';
      break;
    case 't':
      out += '\t';
      break;
    case '%':
      out += '%';
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace

std::string format_time(const Clock& clock, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();
    const std::size_t letter = i + (bare ? 2 : 1);
    if (!append_field(out, clock, format[letter], bare)) {
      throw Problem{"a field that strftime knows", cat("`%", format.substr(i + 1, letter - i), "`")};
    }
    i = letter;
  }
  return out;
}

const std::vector<std::pair<std::string, Value>>& globals() {
  static const std::vector<std::pair<std::string, Value>> table = [] {
    std::vector<std::pair<std::string, Value>> out;
    const auto add = [&out](const char* name, Value (*function)(Evaluator&, const Arguments&)) {
      out.emplace_back(name, Value(ObjectPtr(std::make_shared<Builtin>(name, function))));
    };
    add("range", make_range);
    add("dict", make_dictionary);
    add("namespace", make_namespace);
    add("cycler", make_cycler);
    add("joiner", make_joiner);
    add("raise_exception", raise_exception);
    add("strftime_now", strftime_now);
    return out;
  }();
  return table;
}

}  // namespace tern::jinja
