#include "server/rollout/query.h"

#include <charconv>

#include "base/status.h"
#include "base/strings.h"

namespace tern::server::rollout {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = text.data() + at + 1;
    const char* const end = begin + std::min<std::size_t>(2, text.size() - at - 1);
    if (end - begin != 2 || std::from_chars(begin, end, byte, 16).ptr != end) {
      throw Failure(data_error("query", "two hexadecimal digits behind each %", text, "write a percent sign as %25"));
    }
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

}  // namespace

Query::Query(std::string_view query) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    const std::string key = decoded(one.substr(0, equals));
    const std::string value = equals == std::string_view::npos ? "" : decoded(one.substr(equals + 1));
    if (!one.empty() && !values_.emplace(key, value).second) {
      throw Failure(data_error(cat("query \"", key, "\""), "each name once", "it twice", "leave one out"));
    }
  }
}

std::optional<std::string> Query::text(const std::string& key) const {
  read_.insert(key);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

void Query::finish() const {
  for (const auto& [key, value] : values_) {
    if (read_.contains(key)) continue;
    throw Failure(data_error(cat("query \"", key, "\""), "only names that this route reads", value, "leave it out"));
  }
}

}  // namespace tern::server::rollout
