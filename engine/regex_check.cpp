#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "engine/schema_check.h"

namespace tern::engine {

namespace {

constexpr std::size_t kLongest = std::size_t{1} << 15;  // bytes
// xgrammar takes seconds to compile counts above these for a large vocabulary, and tens of milliseconds a mask.
constexpr std::int64_t kMostRepeats = 128;
constexpr std::int64_t kHeaviest = 512;  // characters and classes, repeated ones as often as they may come
constexpr int kDeepest = 100;            // groups in groups

Error refused(const std::string& where, std::string_view found, std::string_view mend) {
  return data_error(where, "what is enforced of a regular expression", found, mend);
}

// The end of the escape at `at`, or 0 where it's none that is enforced.
std::size_t escape_end(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size()) return 0;
  const char c = text[at + 1];
  std::size_t digits = 0;
  if (c == 'x') digits = 2;
  if (c == 'u') digits = 4;
  if (digits > 0) {
    if (at + 2 + digits > text.size()) return 0;
    for (std::size_t i = at + 2; i < at + 2 + digits; ++i) {
      if (std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return 0;
    }
    return at + 2 + digits;
  }
  const bool known = std::string_view("dDwWsSnrtfv").find(c) != std::string_view::npos;
  return known || std::ispunct(static_cast<unsigned char>(c)) != 0 ? at + 2 : 0;
}

// The largest number in "{2,30}" at `at`; -1 where that is no repetition.
std::int64_t largest_count(std::string_view text, std::size_t at) {
  std::int64_t largest = -1, number = -1;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9') {
      number = std::min<std::int64_t>(kMostRepeats + 1, std::max<std::int64_t>(number, 0) * 10 + (c - '0'));
    } else if (c == ',' || c == '}') {
      largest = std::max(largest, number);
      number = -1;
      if (c == '}') return largest;
    } else if (c != ' ') {
      return -1;
    }
  }
  return -1;
}

Status check_group(std::string_view text, std::size_t at, const std::string& where) {
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with("(?") || rest.starts_with("(?:")) return Unit{};
  const bool named = (rest.starts_with("(?<") || rest.starts_with("(?P<")) && !rest.starts_with("(?<=") &&
                     !rest.starts_with("(?<!") && rest.find('>') != std::string_view::npos;
  if (named) return Unit{};
  return refused(where, "\"" + std::string(rest.substr(0, 4)) + "\" at byte " + std::to_string(at),
                 "leave look-around and flags out");
}

}  // namespace

Status check_regex(std::string_view text, const std::string& where) {
  if (text.size() > kLongest) {
    return refused(where, std::to_string(text.size()) + " bytes", "use at most " + std::to_string(kLongest));
  }
  bool in_class = false;
  int depth = 0;
  std::vector<std::int64_t> weights{0};  // of the groups around this place
  std::int64_t last = 0;                 // weight of what a repetition would repeat
  const auto add = [&](std::int64_t weight) {
    weights.back() = std::min(kHeaviest + 1, weights.back() + (last = weight));
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::string place = " at byte " + std::to_string(at);
    if (c == '\\') {
      const std::size_t end = escape_end(text, at);
      if (end == 0)
        return refused(where, "the escape \"" + std::string(text.substr(at, 2)) + "\"" + place, "leave it out");
      if (!in_class) add(1);
      at = end;
      continue;
    }
    if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      add(1);
      if (text.substr(at + 1).starts_with("^]") || text.substr(at + 1).starts_with("]")) {
        return refused(where, "an empty class" + place, "escape the bracket");
      }
    } else if (c == '(') {
      if (const Status group = check_group(text, at, where); !group) return group;
      if (++depth > kDeepest) return refused(where, "groups nested " + std::to_string(depth) + " deep", "nest fewer");
      weights.push_back(0);
    } else if (c == ')') {
      --depth;
      const std::int64_t inside = weights.back();
      if (weights.size() > 1) weights.pop_back();
      add(inside);
    } else if ((c == '^' && at != 0) || (c == '$' && at + 1 != text.size())) {
      return refused(where, "\"" + std::string(1, c) + "\"" + place,
                     "use ^ at the beginning and $ at the end only, for the whole text is matched");
    } else if (c == '{') {
      const std::int64_t count = largest_count(text, at);
      if (count > kMostRepeats) {
        return refused(where, "a repetition" + place, "repeat at most " + std::to_string(kMostRepeats) + " times");
      }
      if (count > 1) add(last * (count - 1));
    } else {
      add(1);
    }
    if (weights.back() > kHeaviest) {
      return refused(where,
                     "more than " + std::to_string(kHeaviest) + " characters, those that repeat counted each time",
                     "repeat less, or use * and +");
    }
    ++at;
  }
  return Unit{};
}

Status check_ebnf(std::string_view text, const std::string& where) {
  constexpr std::size_t longest = std::size_t{1} << 16;
  if (text.size() > longest) {
    return data_error(where, "a grammar of at most " + std::to_string(longest) + " bytes",
                      std::to_string(text.size()) + " bytes", "make it smaller");
  }
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' && largest_count(text, at) > kMostRepeats) {
      return data_error(where, "repetitions of at most " + std::to_string(kMostRepeats),
                        "more at byte " + std::to_string(at), "repeat less");
    }
    depth += static_cast<int>(text[at] == '(') - static_cast<int>(text[at] == ')');
    if (depth > kDeepest) {
      return data_error(where, "groups nested at most " + std::to_string(kDeepest) + " deep",
                        "more at byte " + std::to_string(at), "name the inner ones as rules");
    }
  }
  return Unit{};
}

}  // namespace tern::engine
