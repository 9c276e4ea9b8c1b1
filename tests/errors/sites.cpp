#include "sites.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace tern::errors {
namespace {

namespace fs = std::filesystem;

// Whether the quote belongs to a number such as 1'000; else it begins a character, as in U' '.
bool separates_digits(const std::string& text, std::size_t quote) {
  std::size_t begin = quote;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '\'')) {
    --begin;
  }
  return begin < quote && std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
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
    } else if (text[i] == '"' || (text[i] == '\'' && !separates_digits(text, i))) {
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
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

unsigned line_of(const std::string& text, std::size_t at) {
  return 1 + static_cast<unsigned>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// `std::string found`, `const Flag& flag`: a parameter of a declaration, not an argument of a call.
bool is_parameter(const std::string& part) {
  static const std::regex pattern(R"((?:const )?[\w:]+(?:<.*>)?[&*]? [&*]?\w+(?: = .*)?)");
  return std::regex_match(part, pattern);
}

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A function's body as a place in the text, by its name: of those that give back an error or never return.
std::vector<std::pair<std::string, Span>> error_functions(const std::string& code) {
  std::vector<std::pair<std::string, Span>> out;
  static const std::regex head(R"((?:\bError|\bFailure|\[\[noreturn\]\] (?:static )?void)\s+(?:\w+::)*(\w+)\()");
  for (auto match = std::sregex_iterator(code.begin(), code.end(), head); match != std::sregex_iterator(); ++match) {
    const auto open = static_cast<std::size_t>(match->position() + match->length()) - 1;
    const std::size_t behind = closed(code, open);
    const std::size_t body = code.find_first_of("{;", behind);
    if (body == std::string::npos || code[body] == ';') continue;  // declared, or a variable that is made by a call
    out.emplace_back((*match)[1], Span{body, closed(code, body)});
  }
  return out;
}

// The arguments between the brackets at `begin` and `end`, as written.
std::vector<std::string> arguments(const std::string& code, const std::string& text, std::size_t begin,
                                   std::size_t end) {
  std::vector<std::string> out;
  std::size_t from = begin;
  int depth = 0;
  for (std::size_t i = begin; i < end; ++i) {
    depth += std::string_view("({[").find(code[i]) != std::string_view::npos   ? 1
             : std::string_view(")}]").find(code[i]) != std::string_view::npos ? -1
                                                                               : 0;
    if (code[i] != ',' || depth != 0) continue;
    out.push_back(squeezed(text.substr(from, i - from)));
    from = i + 1;
  }
  out.push_back(squeezed(text.substr(from, end - from)));
  return out;
}

std::string folder_of(const std::string& file) { return file.substr(0, file.find('/')); }

const std::regex& call() {
  static const std::regex pattern(R"(\b(\w+)[({])");
  return pattern;
}

}  // namespace

const std::vector<std::string>& folders() {
  static const std::vector<std::string> list{"base",    "accel", "graph",     "conformance", "io",   "checkpoint",
                                             "hub",     "jinja", "tokenizer", "chat",        "data", "models",
                                             "session", "train", "engine",    "cli"};
  return list;
}

const std::set<std::string>& general_makers() {
  static const std::set<std::string> list{"usage_error", "failed_error", "device_error", "interrupted_error",
                                          "data_error"};
  return list;
}

std::set<Maker> makers_of(const std::string& list) {
  std::set<Maker> out;
  static const std::regex entry(R"((\S+): (\w+) (callers|everywhere|itself))");
  std::istringstream in(list);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (line.empty() || line[0] == '#') continue;
    if (!std::regex_match(line, match, entry)) throw std::runtime_error("makers.txt: " + line);
    out.insert({match[1], match[2], match[3] != "itself", match[3] == "everywhere"});
  }
  return out;
}

std::set<Maker> makers_in(const std::string& file, const std::string& text) {
  const std::string code = without_literals(text);
  std::set<Maker> out;
  for (const auto& [name, body] : error_functions(code)) {
    const auto end = code.begin() + static_cast<std::ptrdiff_t>(body.end);
    for (auto match = std::sregex_iterator(code.begin() + static_cast<std::ptrdiff_t>(body.begin), end, call());
         match != std::sregex_iterator(); ++match) {
      if (general_makers().count((*match)[1]) != 0) out.insert({file, name});
    }
  }
  return out;
}

bool defines(const std::string& text, const std::string& name) {
  const std::string code = without_literals(text);
  const auto functions = error_functions(code);
  return code.find("struct " + name + " {") != std::string::npos ||
         std::any_of(functions.begin(), functions.end(), [&](const auto& function) { return function.first == name; });
}

std::vector<ErrorSite> error_sites_in(const std::string& file, const std::string& text, const std::set<Maker>& makers) {
  const std::string code = without_literals(text);
  std::set<std::string> wanted = general_makers();
  const auto functions = error_functions(code);
  std::vector<Span> bodies;  // of makers whose callers are the sites
  for (const Maker& maker : makers) {
    if (!maker.callers || (!maker.everywhere && folder_of(maker.file) != folder_of(file))) continue;
    const bool listed = std::any_of(makers.begin(), makers.end(),
                                    [&](const Maker& one) { return one.file == file && one.name == maker.name; });
    std::vector<Span> own;
    for (const auto& [name, body] : functions) {
      if (name == maker.name) own.push_back(body);
    }
    if (!own.empty() && !listed) continue;  // another function of that name, which makes no error for a user
    wanted.insert(maker.name);
    if (maker.file == file) bodies.insert(bodies.end(), own.begin(), own.end());
  }
  std::vector<ErrorSite> out;
  for (auto match = std::sregex_iterator(code.begin(), code.end(), call()); match != std::sregex_iterator(); ++match) {
    if (wanted.count((*match)[1]) == 0) continue;
    const auto begin = static_cast<std::size_t>(match->position());
    if (std::any_of(bodies.begin(), bodies.end(), [&](Span s) { return s.begin <= begin && begin < s.end; })) continue;
    const auto open = begin + static_cast<std::size_t>(match->length()) - 1;
    const std::size_t end = closed(code, open);
    const auto parts = arguments(code, text, open + 1, end - 1);
    const std::size_t behind = code.find_first_not_of(" \n", end);
    // A getter (`result.error()`), and the head of a definition or a declaration, make nothing.
    const bool head = std::any_of(parts.begin(), parts.end(), is_parameter) ||
                      (behind != std::string::npos && code[behind] == '{' && code[open] == '(');
    if ((parts.size() == 1 && parts[0].empty()) || head) continue;
    const std::size_t line = code.rfind('\n', begin);
    out.push_back({file, line_of(code, begin), line_of(code, end),
                   static_cast<unsigned>(begin - (line == std::string::npos ? 0 : line + 1)) + 1, (*match)[1],
                   squeezed(text.substr(begin, end - begin)), parts});
  }
  return out;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::pair<std::string, std::string>> source_files(const fs::path& source) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& folder : folders()) {
    for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
      const auto kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".h") continue;
      out.emplace_back(fs::relative(entry.path(), source).generic_string(), read_text(entry.path()));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<ErrorSite> error_sites(const fs::path& source, const std::set<Maker>& makers) {
  std::vector<ErrorSite> out;
  for (const auto& [file, text] : source_files(source)) {
    if (file.rfind("base/status.", 0) == 0) continue;  // the general makers themselves
    const auto sites = error_sites_in(file, text, makers);
    out.insert(out.end(), sites.begin(), sites.end());
  }
  return out;
}

}  // namespace tern::errors
