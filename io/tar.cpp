#include "io/tar.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace tern::io {
namespace {

constexpr std::size_t kBlock = 512;
using Header = std::array<char, kBlock>;

// Where the fields of a header begin, and how long they are.
struct Field {
  std::size_t begin;
  std::size_t bytes;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUser{108, 8};
constexpr Field kGroup{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kSum{148, 8};
constexpr Field kType{156, 1};
constexpr Field kMagic{257, 8};

void put(Header& header, Field field, std::string_view text) {
  std::memcpy(header.data() + field.begin, text.data(), text.size());
}

// Octal digits and a NUL.
void put_number(Header& header, Field field, unsigned long long value) {
  std::array<char, 24> digits{};
  const int length = std::snprintf(digits.data(), digits.size(), "%0*llo", static_cast<int>(field.bytes) - 1, value);
  put(header, field, {digits.data(), static_cast<std::size_t>(length)});
}

Header header_of(const TarEntry& entry, long long time) {
  if (entry.name.size() > kName.bytes) throw std::logic_error("tar: a name of more than 100 bytes");
  Header header{};
  put(header, kName, entry.name);
  put_number(header, kMode, 0644);
  put_number(header, kUser, 0);
  put_number(header, kGroup, 0);
  put_number(header, kSize, entry.text.size());
  put_number(header, kTime, static_cast<unsigned long long>(time));
  put(header, kType, "0");
  put(header, kMagic, std::string_view("ustar\00000", 8));
  // The sum counts its own field as blanks.
  std::memset(header.data() + kSum.begin, ' ', kSum.bytes);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put_number(header, {kSum.begin, kSum.bytes - 1}, sum);
  return header;
}

}  // namespace

std::string tar(std::span<const TarEntry> entries, long long time) {
  std::string out;
  for (const auto& entry : entries) {
    const Header header = header_of(entry, time);
    out.append(header.data(), header.size());
    out += entry.text;
    out.append((kBlock - entry.text.size() % kBlock) % kBlock, '\0');
  }
  out.append(2 * kBlock, '\0');
  return out;
}

}  // namespace tern::io
