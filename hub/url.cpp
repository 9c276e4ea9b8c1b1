#include "hub/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <memory>
#include <span>

namespace tern::hub {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

struct Range {
  Bytes begin;
  int bits;
};

bool lies_in(std::span<const std::uint8_t> address, const Range& range) {
  for (int bit = 0; bit < range.bits; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((address[at] & mask) != (range.begin[at] & mask)) return false;
  }
  return true;
}

// https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast and what is reserved.
constexpr std::array<Range, 14> kNotPublic4 = {{{{0}, 8},
                                                {{10}, 8},
                                                {{100, 64}, 10},
                                                {{127}, 8},
                                                {{169, 254}, 16},
                                                {{172, 16}, 12},
                                                {{192, 0, 0}, 24},
                                                {{192, 0, 2}, 24},
                                                {{192, 88, 99}, 24},
                                                {{192, 168}, 16},
                                                {{198, 18}, 15},
                                                {{198, 51, 100}, 24},
                                                {{203, 0, 113}, 24},
                                                {{224}, 3}}};

// https://www.iana.org/assignments/iana-ipv6-special-registry: 2000::/3 is what is given out for the internet.
constexpr Range kGlobal6 = {{0x20}, 3};
constexpr std::array<Range, 4> kNotPublic6 = {
    {{{0x20, 0x01, 0x00}, 23}, {{0x20, 0x01, 0x0d, 0xb8}, 32}, {{0x20, 0x02}, 16}, {{0x3f, 0xff}, 20}}};
// Those that stand for the IPv4 address in their last four bytes: mapped ones, and those of NAT64, which hosts without
// IPv4 reach it by.
constexpr std::array<Range, 2> kStandFor4 = {
    {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, {{0x00, 0x64, 0xff, 0x9b}, 96}}};

bool is_public4(std::span<const std::uint8_t> address) {
  return std::ranges::none_of(kNotPublic4, [&](const Range& range) { return lies_in(address, range); });
}

}  // namespace

bool is_public_address(std::string_view address) {
  const std::string text(address);
  Bytes bytes{};
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return is_public4(bytes);
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return false;  // one with a zone is link-local, too
  const auto lies = [&](const Range& range) { return lies_in(bytes, range); };
  if (std::ranges::any_of(kStandFor4, lies)) return is_public4(std::span(bytes).subspan(12));
  return lies(kGlobal6) && std::ranges::none_of(kNotPublic6, lies);
}

std::optional<Url> parse_url(const std::string& text) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr || text.find('\0') != std::string::npos) return std::nullopt;
  if (curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&](CURLUPart which) -> std::string {
    char* found = nullptr;
    if (curl_url_get(parsed.get(), which, &found, 0) != CURLUE_OK) return {};
    const std::unique_ptr<char, decltype(&curl_free)> owner(found, curl_free);
    return found;
  };
  Url url;
  const std::string scheme = part(CURLUPART_SCHEME);
  url.secure = scheme == "https";
  if (!url.secure && scheme != "http") return std::nullopt;
  url.text = part(CURLUPART_URL);
  url.host = part(CURLUPART_HOST);
  if (url.host.starts_with('[') && url.host.ends_with(']')) url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.ends_with('.')) url.host.pop_back();
  std::ranges::transform(url.host, url.host.begin(), [](unsigned char c) { return std::tolower(c); });
  if (url.host.empty() || url.text.empty()) return std::nullopt;
  return url;
}

}  // namespace tern::hub
