#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/strings.h"
#include "cli/flags/arguments.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

std::string in_quotes(std::string_view word) { return cat("\"", word, "\""); }

std::string one_of(std::string_view choices) {
  std::vector<std::string> words;
  for (const auto word : split(choices, '|')) words.emplace_back(word);
  return words.size() == 1 ? words[0] : cat("one of ", join(words, ", "));
}

bool is_choice(std::string_view choices, std::string_view word) {
  for (const auto choice : split(choices, '|')) {
    if (choice == word) return true;
  }
  return false;
}

template <typename Number>
std::optional<Number> number(std::string_view word) {
  Number value{};
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || word.empty()) return std::nullopt;
  return value;
}

// A number as it is, any other word in quotes.
std::string as_typed(std::string_view word) { return number<double>(word) ? std::string(word) : in_quotes(word); }

// `[0,1)`: a bracket includes its bound.
bool in_range(std::string_view range, double value) {
  if (range.empty()) return true;
  const auto comma = range.find(',');
  const auto low = number<double>(range.substr(1, comma - 1));
  const auto high = number<double>(range.substr(comma + 1, range.size() - comma - 2));
  if (!low || !high) throw std::logic_error(cat("flag table: the range ", range, " is not of two numbers"));
  const bool above = range.front() == '[' ? value >= *low : value > *low;
  const bool below = range.back() == ']' ? value <= *high : value < *high;
  return above && below;
}

// A value that the flag takes, as an example: its default where it has one.
std::string like(const Flag& flag) {
  std::string value(flag.fallback);
  if (value.empty()) {
    switch (flag.type) {
      case FlagType::list:
        value = "VALUE";
        if (flag.range.empty()) break;
        [[fallthrough]];
      case FlagType::integer:
      case FlagType::real:
        value = flag.range.starts_with('[') ? std::string(flag.range.substr(1, flag.range.find(',') - 1)) : "1";
        break;
      case FlagType::boolean:
        value = "true";
        break;
      case FlagType::size:
        value = "5GB";
        break;
      case FlagType::json:
        value = "'{\"key\": \"value\"}'";
        break;
      case FlagType::choice:
        value = split(flag.choices, '|')[0];
        break;
      default:
        value = "VALUE";
    }
  }
  return cat("for example --", flag.name, " ", value);
}

// "an integer from 1 to 4096": the range as one says it.
std::string in_words(std::string_view kind, std::string_view range) {
  if (range.empty()) return std::string(kind);
  const auto comma = range.find(',');
  const std::string_view low = range.substr(1, comma - 1);
  const std::string_view high = range.substr(comma + 1, range.size() - comma - 2);
  const bool with_low = range.front() == '[';
  const bool with_high = range.back() == ']';
  if (high == "inf") return cat(kind, with_low ? " of at least " : " above ", low);
  if (with_low && with_high) return cat(kind, " from ", low, " to ", high);
  return cat(kind, with_low ? " of at least " : " above ", low, with_high ? " and at most " : " and below ", high);
}

Error wrong_value(const Flag& flag, const std::string& word, const std::string& where, std::string_view wanted) {
  return usage_error(cat(where, " is ", as_typed(word), ", and must be ", wanted), like(flag));
}

Result<FlagData> parse_integer(const Flag& flag, const std::string& word, const std::string& where) {
  const auto value = number<std::int64_t>(word);
  const auto real = number<double>(word);
  if (!value && real && std::floor(*real) == *real && std::abs(*real) >= 0x1p63) {
    return wrong_value(flag, word, where, cat(in_words("an integer", flag.range), ", and below 2^63"));
  }
  if (!value || !in_range(flag.range, static_cast<double>(*value))) {
    return wrong_value(flag, word, where, in_words("an integer", flag.range));
  }
  return FlagData(*value);
}

Result<FlagData> parse_real(const Flag& flag, const std::string& word, const std::string& where) {
  const auto value = number<double>(word);
  if (!value || !std::isfinite(*value) || !in_range(flag.range, *value)) {
    return wrong_value(flag, word, where, in_words("a number", flag.range));
  }
  return FlagData(*value);
}

std::optional<bool> truth(std::string_view word) {
  if (word == "true" || word == "True" || word == "TRUE" || word == "1" || word == "yes") return true;
  if (word == "false" || word == "False" || word == "FALSE" || word == "0" || word == "no") return false;
  return std::nullopt;
}

Result<FlagData> parse_size(const Flag& flag, const std::string& word, const std::string& where) {
  struct SizeUnit {
    std::string_view suffix;
    double bytes;
  };
  static constexpr SizeUnit kUnits[] = {
      {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
      {"B", 1.0},      {"", 1.0}};
  std::string_view text = trim(word);
  for (const auto& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    const auto value = number<double>(trim(text.substr(0, text.size() - unit.suffix.size())));
    const double bytes = value.value_or(-1) * unit.bytes;
    if (!(bytes >= 0) || bytes > 9e18 || !in_range(flag.range, bytes)) break;
    return FlagData(static_cast<std::int64_t>(bytes));
  }
  return wrong_value(flag, word, where, "a size such as 500MB, 5GB or 2GiB");
}

Result<FlagData> parse_json(const Flag& flag, const std::string& word, const std::string& where) {
  if (!flag.choices.empty() && is_choice(flag.choices, word)) return FlagData(word);
  if (is_json_object(word)) return FlagData(word);
  const auto expected =
      flag.choices.empty() ? std::string("a JSON object") : cat("a JSON object or ", one_of(flag.choices));
  return wrong_value(flag, word, where, expected);
}

Error no_choice(const Flag& flag, const std::string& word, const std::string& where) {
  std::vector<std::string> choices;
  for (const auto choice : split(flag.choices, '|')) choices.emplace_back(choice);
  const auto near = nearest(word, choices);
  return usage_error(cat(where, " is ", in_quotes(word), ", and must be ", one_of(flag.choices)),
                     near.empty() ? like(flag) : cat("did you mean ", near, "?"));
}

Result<FlagData> parse_list(const Flag& flag, std::span<const std::string> words, const std::string& where) {
  for (const auto& word : words) {
    if (!flag.choices.empty() && !is_choice(flag.choices, word)) {
      return no_choice(flag, word, where);
    }
    if (flag.range.empty()) continue;
    const auto checked = parse_integer(flag, word, where);
    if (!checked) return checked.error();
  }
  return FlagData(FlagWord(words.begin(), words.end()));
}

}  // namespace

Result<FlagData> parse_flag(const Flag& flag, std::span<const std::string> words, const std::string& where) {
  if (flag.type == FlagType::list) {
    if (words.empty()) return usage_error(cat(where, " needs at least one value"), like(flag));
    return parse_list(flag, words, where);
  }
  if (flag.type == FlagType::boolean && words.empty()) return FlagData(true);
  if (words.size() != 1) {
    return usage_error(cat(where, words.empty() ? " needs a value" : cat(" takes one value, not ", words.size())),
                       like(flag));
  }
  const std::string& word = words[0];
  switch (flag.type) {
    case FlagType::integer:
      return parse_integer(flag, word, where);
    case FlagType::real:
      return parse_real(flag, word, where);
    case FlagType::size:
      return parse_size(flag, word, where);
    case FlagType::json:
      return parse_json(flag, word, where);
    case FlagType::boolean: {
      const auto value = truth(word);
      if (!value) return wrong_value(flag, word, where, "true or false");
      return FlagData(*value);
    }
    case FlagType::choice:
      if (is_choice(flag.choices, word)) return FlagData(word);
      return no_choice(flag, word, where);
    default:
      return FlagData(word);
  }
}

}  // namespace tern::cli
