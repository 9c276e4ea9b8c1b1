// Reads the table of folders (docs/layers.txt) and the #include lines of a tree, and says which include breaks it; and
// which file is too long.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tern::layers {

// Folder -> every folder it may include: what the table names and whatever those may include, itself among them.
// Throws std::runtime_error where the text is no table: a line without colon, an unknown folder, a cycle.
using Table = std::map<std::string, std::set<std::string>>;
[[nodiscard]] Table read_table(const std::string& text);

struct Source {
  std::string path;  // relative to the root, with /
  std::string text;
};

// One line a mistake: `ops/matmul.h:3: includes accel/device.h; ops may include base`.
[[nodiscard]] std::vector<std::string> mistakes(const Table& table, const std::vector<Source>& sources);

// One line a file that is longer than its kind may be: `ops/table.cpp: 658 lines, and a source has at most 500`.
// Headers have at most 300; those of the interface, which a plugin's author reads as one text, as many as a source.
// What is generated may be of any length.
[[nodiscard]] std::vector<std::string> too_long(const std::vector<Source>& sources);

// Every source and header under `root` that lies in a folder of the tree (build output, tests, bench and hidden ones
// aside); with `tests` those of tests and bench, too.
[[nodiscard]] std::vector<Source> read_sources(const std::filesystem::path& root, bool tests = false);

}  // namespace tern::layers
