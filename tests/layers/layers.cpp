#include "layers.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tern::layers {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kExtensions = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".cl", ".inc"};
const std::set<std::string> kOutside = {"build", "script", "docs", "examples", "cmake", "output"};
const std::set<std::string> kTests = {"bench", "tests"};

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

void close_over(const std::string& folder, const std::map<std::string, std::vector<std::string>>& rows,
                std::set<std::string>& reached, std::set<std::string>& open) {
  if (!open.insert(folder).second) throw std::runtime_error("docs/layers.txt: a cycle through " + folder);
  reached.insert(folder);
  for (const auto& below : rows.at(folder)) {
    if (!rows.contains(below)) throw std::runtime_error(std::string("docs/layers.txt: unknown folder ").append(below));
    close_over(below, rows, reached, open);
  }
  open.erase(folder);
}

// The longest folder of the table that holds `path`: backends/cpu before backends.
std::string folder_of(const Table& table, const std::string& path) {
  std::string best;
  for (const auto& [folder, allowed] : table) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

// What `#include "x"` or `<x>` names; empty for any other line.
std::string included(const std::string& line, bool& quoted) {
  auto text = trimmed(line);
  if (!text.starts_with('#')) return {};
  text = trimmed(text.substr(1));
  if (!text.starts_with("include")) return {};
  text = trimmed(text.substr(7));
  if (text.size() < 2 || (text[0] != '"' && text[0] != '<')) return {};
  quoted = text[0] == '"';
  const auto end = text.find(quoted ? '"' : '>', 1);
  return end == std::string::npos ? std::string() : text.substr(1, end - 1);
}

std::string listed(const std::set<std::string>& folders, const std::string& self) {
  std::string out;
  for (const auto& folder : folders) {
    if (folder != self) out += (out.empty() ? "" : " ") + folder;
  }
  return out.empty() ? "nothing" : out;
}

std::string judge(const Table& table, const std::string& from, const std::string& path, bool quoted) {
  if (path.starts_with("tern/")) return {};  // include/tern is the ground
  const auto to = folder_of(table, path);
  if (to.empty()) {
    // A library's header in quotes would hide a folder that the table does not know.
    return quoted ? "includes \"" + path + "\", which is in no folder of docs/layers.txt" : "";
  }
  const auto& allowed = table.at(from);
  if (allowed.contains(to)) return {};
  return "includes " + path + "; " + from + " may include " + listed(allowed, from);
}

std::string slurp(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw std::runtime_error(path.string() + ": cannot be read");
  return text.str();
}

}  // namespace

Table read_table(const std::string& text) {
  std::map<std::string, std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) throw std::runtime_error("docs/layers.txt: no colon in: " + line);
    auto& below = rows[trimmed(line.substr(0, colon))];
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) below.push_back(word);
  }
  if (rows.empty()) throw std::runtime_error("docs/layers.txt: no folders");
  Table table;
  for (const auto& [folder, below] : rows) {
    std::set<std::string> open;
    close_over(folder, rows, table[folder], open);
  }
  return table;
}

std::vector<std::string> mistakes(const Table& table, const std::vector<Source>& sources) {
  std::vector<std::string> found;
  for (const auto& source : sources) {
    if (source.path.starts_with("include/tern/")) {
      // The public headers stand alone: the standard integers, the standard size, and each other. What plugins are
      // helped with may take the rest of the standard library as well, whose headers lie in no folder.
      const bool helps = source.path.starts_with("include/tern/plugin");
      std::istringstream lines(source.text);
      int number = 0;
      for (std::string line; std::getline(lines, line);) {
        ++number;
        bool quoted = false;
        const auto path = included(line, quoted);
        const bool flat = path.find('/') == std::string::npos;
        const bool own = path.starts_with("tern/") || (quoted && flat);
        if (path.empty() || own || path == "stdint.h" || path == "stddef.h" || (helps && flat && !quoted)) continue;
        found.push_back(source.path + ":" + std::to_string(number) + ": includes " + path + "; it must stand alone");
      }
      continue;
    }
    const auto from = folder_of(table, source.path);
    if (from.empty()) {
      found.push_back(source.path + ": in no folder of docs/layers.txt");
      continue;
    }
    std::istringstream lines(source.text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      bool quoted = false;
      const auto path = included(line, quoted);
      if (path.empty()) continue;
      const auto mistake = judge(table, from, path, quoted);
      if (!mistake.empty()) found.push_back(source.path + ":" + std::to_string(number) + ": " + mistake);
    }
  }
  return found;
}

std::vector<std::string> too_long(const std::vector<Source>& sources) {
  constexpr std::ptrdiff_t kHeader = 300;
  constexpr std::ptrdiff_t kSource = 500;
  std::vector<std::string> found;
  for (const auto& [path, text] : sources) {
    if (text.starts_with("/* Generated ")) continue;
    const bool short_header = path.ends_with(".h") && !path.starts_with("include/tern/");
    const std::ptrdiff_t most = short_header ? kHeader : kSource;
    const auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines <= most) continue;
    found.push_back(path + ": " + std::to_string(lines) + " lines, and a " + (short_header ? "header" : "source") +
                    " has at most " + std::to_string(most));
  }
  return found;
}

std::vector<Source> read_sources(const fs::path& root, bool tests) {
  std::vector<Source> sources;
  for (const auto& top : fs::directory_iterator(root)) {
    const auto name = top.path().filename().string();
    const bool outside = name.starts_with('.') || name.starts_with("build-") || kOutside.contains(name) ||
                         (!tests && kTests.contains(name));
    if (!top.is_directory() || outside) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top.path())) {
      if (!entry.is_regular_file() || !kExtensions.contains(entry.path().extension().string())) continue;
      sources.push_back({fs::relative(entry.path(), root).generic_string(), slurp(entry.path())});
    }
  }
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

}  // namespace tern::layers
