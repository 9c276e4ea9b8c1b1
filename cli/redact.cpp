#include "cli/redact.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace tern::cli {
namespace {

constexpr std::string_view kRemoved = "(removed)";
// What a name ends with whose value is a secret; "tokens" and "keys" count things.
constexpr std::array<std::string_view, 9> kSecretEnds = {"token",      "secret",   "password",      "passwd",     "key",
                                                         "credential", "passcode", "authorization", "credentials"};
// How tokens of hubs and clouds begin.
constexpr std::array<std::string_view, 10> kTokenStarts = {"hf_",         "sk-",    "ms-",   "ghp_",  "gho_",
                                                           "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA"};
constexpr std::size_t kShortestToken = 8;  // behind how it begins

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_token(std::string_view word) {
  return std::any_of(kTokenStarts.begin(), kTokenStarts.end(), [&](std::string_view start) {
    return word.substr(0, start.size()) == start && word.size() >= start.size() + kShortestToken;
  });
}

bool ends_value(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '"' || c == '\'' || c == ',' || c == ';' ||
         c == '}' || c == ')' || c == '&';
}

// Where the value begins that belongs to a secret name which ends at `at`; npos: none does.
std::size_t value_of(std::string_view text, std::size_t at, bool is_flag) {
  const auto skip = [&](std::string_view these) {
    while (at < text.size() && these.find(text[at]) != std::string_view::npos) ++at;
  };
  skip("\"'");
  const std::size_t before = at;
  skip(" ");
  if (at < text.size() && (text[at] == ':' || text[at] == '=')) {
    ++at;
  } else if (!is_flag || at == before) {
    return std::string_view::npos;  // words that happen to follow
  }
  skip(" \"'");
  for (const std::string_view scheme : {"Bearer ", "Basic ", "bearer ", "basic "}) {
    if (text.substr(at, scheme.size()) == scheme) at += scheme.size();
  }
  return at;
}

// Words that are tokens, and values of secret names.
std::string without_secret_words(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      out += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto word = text.substr(at, end - at);
    out += is_token(word) ? kRemoved : word;
    at = end;
    if (!is_secret_name(word)) continue;
    const auto value = value_of(text, end, word.substr(0, 2) == "--");
    if (value == std::string_view::npos || value >= text.size() || ends_value(text[value])) continue;
    out += text.substr(end, value - end);
    out += kRemoved;
    at = value;
    while (at < text.size() && !ends_value(text[at])) ++at;
  }
  return out;
}

// `https://user:word@host` becomes `https://(removed)@host`.
std::string without_url_credentials(std::string_view text) {
  std::string out;
  for (;;) {
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, scheme + 3));
    text.remove_prefix(scheme + 3);
    const auto end = text.find_first_of("/ \t\n\"'");
    const auto at = text.substr(0, end).rfind('@');
    if (at == std::string_view::npos) continue;
    out += kRemoved;
    text.remove_prefix(at);
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::string word = lower(name);
  return std::any_of(kSecretEnds.begin(), kSecretEnds.end(), [&](std::string_view end) {
    return word.size() >= end.size() && std::string_view(word).substr(word.size() - end.size()) == end;
  });
}

std::string redact(std::string_view text) {
  std::string out = without_secret_words(without_url_credentials(text));
  const char* home = std::getenv("HOME");
  if (home != nullptr && std::string_view(home).size() > 1) replace_all(out, home, "~");
  std::array<char, 256> host{};
  // A host named by a common word would take that word out everywhere.
  if (gethostname(host.data(), host.size() - 1) == 0 && std::string_view(host.data()) != "localhost" &&
      std::string_view(host.data()).size() > 3) {
    replace_all(out, host.data(), "HOST");
  }
  return out;
}

}  // namespace tern::cli
