#include "server/trace_context.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace tern::server {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}
bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

// 3.2.2: version 00 has exactly these four fields; a later one may have more behind them.
bool is_traceparent(std::string_view text) {
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32), parent = text.substr(36, 16);
  if (!is_hex(version) || version == "ff" || !is_hex(trace) || is_zero(trace)) return false;
  if (!is_hex(parent) || is_zero(parent) || !is_hex(text.substr(53, 2))) return false;
  if (text.size() == kLength) return true;
  return version != "00" && text[kLength] == '-';
}

// 3.3.1.3.1: begins with a letter (of a tenant, also with a digit), at most 256 characters, with "@" 241 and 14.
bool is_state_key(std::string_view key) {
  const auto known = [](char c) { return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/'; };
  const auto all_known = [&](std::string_view text) { return std::all_of(text.begin(), text.end(), known); };
  const std::size_t at = key.find('@');
  if (at == std::string_view::npos) return !key.empty() && key.size() <= 256 && is_lower(key[0]) && all_known(key);
  const std::string_view tenant = key.substr(0, at), system = key.substr(at + 1);
  return !tenant.empty() && tenant.size() <= 241 && (is_lower(tenant[0]) || is_digit(tenant[0])) && all_known(tenant) &&
         !system.empty() && system.size() <= 14 && is_lower(system[0]) && all_known(system);
}

// 3.3.1.3.2: printable, without "," and "=", not ending with a space.
bool is_state_value(std::string_view value) {
  return !value.empty() && value.size() <= 256 && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e && c != ',' && c != '='; });
}

std::string_view without_spaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_tracestate(std::string_view text) {
  constexpr std::size_t kMostMembers = 32;
  std::set<std::string_view> keys;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view member = without_spaces(part);
    if (member.empty()) continue;  // allowed
    const std::size_t equals = member.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = member.substr(0, equals);
    if (!is_state_key(key) || !is_state_value(member.substr(equals + 1)) || !keys.insert(key).second) return false;
  }
  return !keys.empty() && keys.size() <= kMostMembers;
}

}  // namespace

std::optional<TraceContext> read_trace_context(const Headers& headers) {
  TraceContext out;
  std::size_t parents = 0;
  for (const auto& [name, value] : headers) {
    if (name == "traceparent") {
      out.traceparent = value;
      ++parents;
    } else if (name == "tracestate") {
      out.tracestate += cat(out.tracestate.empty() ? "" : ",", value);
    }
  }
  if (parents != 1 || !is_traceparent(out.traceparent)) return std::nullopt;
  if (!is_tracestate(out.tracestate)) out.tracestate.clear();
  return out;
}

}  // namespace tern::server
