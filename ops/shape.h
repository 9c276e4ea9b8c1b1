// The shape of an argument as its contract writes it, read while tern is compiled: a malformed text does not compile.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tern/accel.h"

namespace tern::ops {

// "[rows, width]: a note" has two named dimensions; the same name is the same size in every argument of a call. A
// dimension may also be a number ("[8]"), a name and a number ("[sequences + 1]"), an expression that the op's own
// check knows ("rotary / 2"), and last "...": any further dimensions, the same in every argument. The note follows
// after ":",
// ";", "," or in parentheses, and is for people.
class Shape {
 public:
  std::string_view text;  // as written

  struct Dimension {
    std::string_view name;    // empty: `number` is the size
    std::int64_t number = 0;  // else the size is that of the name and this many more
  };

  consteval Shape(const char* literal) : Shape(literal, false) {}

  // A text with alternatives ("[m, k] or [k, m] if transpose_a"): names no dimension, as the op's own check knows them.
  static consteval Shape checked_by_op(const char* literal) { return {literal, true}; }

  [[nodiscard]] constexpr bool is_checked_by_op() const { return checked_by_op_; }
  [[nodiscard]] constexpr int count() const { return count_; }    // of dimensions, without "..."
  [[nodiscard]] constexpr bool is_open() const { return open_; }  // "..." follows them
  [[nodiscard]] constexpr const Dimension& operator[](int dim) const { return dims_[static_cast<std::size_t>(dim)]; }

  // Which dimension has this name, or -1.
  [[nodiscard]] constexpr int find(std::string_view name) const {
    for (int d = 0; d < count_; ++d) {
      if (!name.empty() && (*this)[d].name == name) return d;
    }
    return -1;
  }

 private:
  consteval Shape(const char* literal, bool checked_by_op) : text(literal), checked_by_op_(checked_by_op) {
    if (checked_by_op) {
      read_alternatives();
    } else {
      read_note(read_brackets(0));
    }
  }

  // From '[' on; gives the place after ']'.
  consteval std::size_t read_brackets(std::size_t at) {
    const std::size_t end = text.find(']', at);
    if (at >= text.size() || text[at] != '[' || end == std::string_view::npos) throw "a shape begins with [dimensions]";
    count_ = 0;
    open_ = false;
    for (std::size_t begin = at + 1; begin <= end;) {
      std::size_t comma = text.find(", ", begin);
      if (comma > end) comma = end;
      read_dimension(text.substr(begin, comma - begin));
      begin = comma == end ? end + 1 : comma + 2;
    }
    return end + 1;
  }

  consteval void read_dimension(std::string_view word) {
    if (open_) throw "... is a shape's last dimension";
    if (word == "...") {
      open_ = true;
      return;
    }
    if (count_ == TERN_MAX_RANK) throw "a shape has too many dimensions";
    Dimension dim;
    if (const std::size_t plus = word.find(" + "); plus != std::string_view::npos) {
      dim.number = number(word.substr(plus + 3));
      word = word.substr(0, plus);
    } else if (!word.empty() && is_digit(word[0])) {
      dim.number = number(word);
      word = {};
    } else if (word.empty()) {
      throw "a dimension has no name";
    }
    check_name(word);
    dim.name = word;
    dims_[static_cast<std::size_t>(count_++)] = dim;
  }

  static consteval void check_name(std::string_view name) {
    if (name.empty()) return;
    if (!is_letter(name.front()) || name.back() == ' ') throw "the name of a dimension begins with a letter";
    for (char c : name) {
      if (!is_letter(c) && !is_digit(c) && c != '_' && c != ' ' && c != '/' && c != '(' && c != ')') {
        throw "a dimension is a name, a number, or a name + a number";
      }
    }
  }

  consteval void read_note(std::size_t at) const {
    const std::string_view note = text.substr(at);
    if (note.empty()) return;
    if (!note.starts_with(": ") && !note.starts_with("; ") && !note.starts_with(", ") && !note.starts_with(" (")) {
      throw "a note follows a shape after a colon, a semicolon or a comma, or in parentheses";
    }
    if (note.find_first_of("[]") != std::string_view::npos) throw "a note holds no further shape: say checked_by_op";
  }

  consteval void read_alternatives() {
    std::size_t at = text.find('[');
    if (at == std::string_view::npos) throw "alternatives hold a shape each";
    while (at != std::string_view::npos) at = text.find('[', read_brackets(at));
    count_ = 0;
    open_ = false;
    dims_ = {};
  }

  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static consteval std::int64_t number(std::string_view digits) {
    std::int64_t value = 0;
    if (digits.empty() || digits.size() > 9) throw "a number was expected";
    for (char c : digits) {
      if (!is_digit(c)) throw "a number was expected";
      value = 10 * value + (c - '0');
    }
    return value;
  }

  std::array<Dimension, TERN_MAX_RANK> dims_{};
  int count_ = 0;
  bool open_ = false;
  bool checked_by_op_ = false;
};

}  // namespace tern::ops
