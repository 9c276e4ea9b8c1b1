#include "tokenizer/unicode/utf8.h"

#include <algorithm>
#include <cstring>

namespace tern::tokenizer {

void append_char(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

namespace {

// The range that the second byte of a sequence must lie in (table 3-7 of the standard).
void second_byte_range(unsigned char lead, unsigned char& low, unsigned char& high) {
  low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

// Number of bytes of the sequence at `at` that are in order, and whether that completes it.
std::size_t well_formed_bytes(std::string_view bytes, std::size_t at, bool& complete) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(at);
  complete = lead < 0x80;
  if (complete) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = utf8_length(lead);
  unsigned char low = 0;
  unsigned char high = 0;
  second_byte_range(lead, low, high);
  std::size_t good = 1;
  while (good < length && at + good < bytes.size() && byte(at + good) >= low && byte(at + good) <= high) {
    low = 0x80;
    high = 0xBF;
    ++good;
  }
  complete = good == length;
  return good;
}

}  // namespace

std::size_t valid_sequence(std::string_view bytes, std::size_t at, std::size_t& broken) {
  bool complete = false;
  const std::size_t good = well_formed_bytes(bytes, at, complete);
  broken = std::max<std::size_t>(good, 1);
  return complete ? good : 0;
}

std::size_t valid_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (at + 8 <= bytes.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    std::size_t broken = 0;
    const std::size_t length = valid_sequence(bytes, at, broken);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

std::string to_valid_utf8(std::string_view bytes, bool each_byte) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t good = valid_prefix(bytes);
    out.append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    std::size_t broken = 0;
    (void)valid_sequence(bytes, 0, broken);
    out += "\xEF\xBF\xBD";
    bytes.remove_prefix(each_byte ? 1 : broken);
  }
  return out;
}

std::size_t incomplete_tail(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::size_t at = bytes.size() - back;
    if (is_continuation(bytes[at])) continue;
    bool complete = false;
    const std::size_t good = well_formed_bytes(bytes, at, complete);
    return !complete && good == back ? back : 0;
  }
  return 0;
}

}  // namespace tern::tokenizer
