// JSON that comes byte by byte: where a value ends, and whether it is one (RFC 8259). Nothing here recurses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::chat {

// What a reader says to a byte.
enum class Fed {
  more,    // taken, and there may be more
  done,    // taken, as the last
  ended,   // not taken: what was read was whole before it
  broken,  // not taken, and it can't stand here
};

[[nodiscard]] inline bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline constexpr std::size_t kMaxDepth = 500;  // of arrays and objects; what is deeper is broken

// The letters of a JSON string, from behind its opening quote. A lone surrogate becomes U+FFFD.
class JsonString {
 public:
  [[nodiscard]] Fed feed(char c, std::string& letters);

 private:
  [[nodiscard]] Fed escape(char c, std::string& letters);
  [[nodiscard]] Fed hex(char c, std::string& letters);

  enum class At { letters, escape, hex };
  At at_ = At::letters;
  std::uint32_t unit_ = 0, high_ = 0;  // high_: a surrogate that waits for its second half
  int digits_ = 0;
};

// Any value.
class JsonValue {
 public:
  [[nodiscard]] Fed feed(char c);
  // Whether the value may end here: what nothing but the text's end shows of a number.
  [[nodiscard]] bool whole() const;

 private:
  enum class At { value, first_item, first_key, key, colon, after, string, word, number, done };
  enum class Digits { minus, zero, integer, point, fraction, exponent, sign, power };
  [[nodiscard]] Fed value(char c);
  [[nodiscard]] Fed after(char c);
  [[nodiscard]] bool digit(char c);  // whether `c` goes on with the number
  [[nodiscard]] bool number_whole() const;
  [[nodiscard]] Fed closed();

  At at_ = At::value;
  Digits digits_ = Digits::minus;
  std::vector<char> open_;  // the brackets
  JsonString string_;
  std::string letters_;
  bool is_key_ = false;
  const char* word_ = "";
};

// Arguments of a call: one object, or one written into a JSON string. Their text goes to the end of `out`.
class JsonArguments {
 public:
  [[nodiscard]] Fed feed(char c, std::string& out);

 private:
  enum class At { start, object, string };
  At at_ = At::start;
  bool whole_ = false;  // the object in the string
  JsonValue value_;
  JsonString string_;
  std::string letters_;
};

// `text` as the inside of a JSON string.
void append_escaped(std::string& out, char c);
[[nodiscard]] std::string json_quoted(std::string_view text);
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace tern::chat
