#include "sites.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace tern::errors {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// Comments and the insides of literals become blanks; every line stays where it is.
std::string without_literals(const std::string& text) {
  std::string out = text;
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      const std::size_t end = std::min(text.find('\n', i), text.size());
      blank(i, end);
      i = end;
    } else if (text.compare(i, 2, "/*") == 0) {
      const std::size_t end = std::min(text.find("*/", i + 2), text.size());
      blank(i, end + 2);
      i = end + 2;
    } else if (text.compare(i, 2, "R\"") == 0) {
      const std::size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      const std::size_t end = std::min(text.find(close, open), text.size());
      blank(open, end + 1);  // with its brackets
      i = end + close.size();
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      const char quote = text[i];
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != quote) end += text[end] == '\\' ? 2 : 1;
      blank(i + 1, end);
      i = end + 1;
    } else {
      ++i;
    }
  }
  return out;
}

// The place behind the bracket that closes the one at `open`.
std::size_t closed(const std::string& code, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < code.size(); ++i) {
    depth += code[i] == '(' || code[i] == '{' ? 1 : code[i] == ')' || code[i] == '}' ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return code.size();
}

std::string squeezed(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

unsigned line_of(const std::string& text, std::size_t at) {
  return 1 + static_cast<unsigned>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

const std::vector<std::string>& folders() {
  static const std::vector<std::string> list{"base",    "accel", "graph",     "conformance", "io",   "checkpoint",
                                             "hub",     "jinja", "tokenizer", "chat",        "data", "models",
                                             "session", "train", "engine",    "cli"};
  return list;
}

std::vector<std::string> makers_in(const std::string& text) {
  const std::string code = without_literals(text);
  std::vector<std::string> out;
  static const std::regex call(R"((\w+)\()");
  static const std::regex structure(R"(struct (\w+) \{)");
  const std::string mark = "Site site = Site::current()";
  for (std::size_t at = code.find(mark); at != std::string::npos; at = code.find(mark, at + 1)) {
    // The nearest name before it whose brackets hold it.
    for (std::size_t open = at; open-- > 0;) {
      if ((code[open] != '(' && code[open] != '{') || closed(code, open) <= at) continue;
      const std::string before = code.substr(0, open + 1);
      std::smatch match;
      const std::string tail = before.substr(before.size() - std::min<std::size_t>(before.size(), 80));
      static const std::regex function_end(R"((\w+)\($)");
      static const std::regex structure_end(R"(struct (\w+) \{$)");
      if (std::regex_search(tail, match, code[open] == '(' ? function_end : structure_end)) out.push_back(match[1]);
      break;
    }
  }
  return out;
}

std::vector<ErrorSite> error_sites_in(const std::string& file, const std::string& text,
                                      const std::vector<std::string>& makers) {
  const std::string code = without_literals(text);
  std::vector<ErrorSite> out;
  static const std::regex name(R"(\b(\w+)[({])");
  static const std::regex handed_on(R"(\bsite\b)");
  const std::set<std::string> wanted(makers.begin(), makers.end());
  for (auto match = std::sregex_iterator(code.begin(), code.end(), name); match != std::sregex_iterator(); ++match) {
    if (wanted.count((*match)[1]) == 0) continue;
    const auto begin = static_cast<std::size_t>(match->position());
    const auto open = begin + static_cast<std::size_t>(match->length()) - 1;
    const std::size_t end = closed(code, open);
    const std::string arguments = code.substr(open + 1, end - open - 2);
    if (squeezed(arguments).empty() || std::regex_search(arguments, handed_on)) continue;
    out.push_back(
        {file, line_of(code, begin), line_of(code, end), (*match)[1], squeezed(text.substr(begin, end - begin))});
  }
  return out;
}

std::vector<ErrorSite> error_sites(const fs::path& source) {
  const auto general = makers_in(read(source / "base/status.h"));
  std::vector<ErrorSite> out;
  for (const auto& folder : folders()) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
      const auto kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".h") continue;
      files[fs::relative(entry.path(), source).generic_string()] = read(entry.path());
    }
    std::vector<std::string> makers = general;
    for (const auto& [file, text] : files) {
      const auto own = makers_in(text);
      makers.insert(makers.end(), own.begin(), own.end());
    }
    for (const auto& [file, text] : files) {
      const auto sites = error_sites_in(file, text, makers);
      out.insert(out.end(), sites.begin(), sites.end());
    }
  }
  return out;
}

}  // namespace tern::errors
