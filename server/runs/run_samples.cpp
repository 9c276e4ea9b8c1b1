#include "server/runs/run_samples.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::size_t kMostFiles = 20;
constexpr std::size_t kMostRows = 20;
constexpr std::size_t kLongestRow = 64U << 10;
constexpr std::uint64_t kTail = 1U << 20;
constexpr int kDeepest = 3;  // checkpoint-8/infer_result/a.jsonl

void find_files(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (entry.is_symlink(error)) continue;
    if (entry.is_directory(error)) {
      if (depth < kDeepest) find_files(path, depth + 1, found);
    } else if (path.extension() == ".jsonl" && path.filename() != "logging.jsonl") {
      found.push_back(path);
    }
  }
}

Json rows_of(const fs::path& path, bool last, bool& more) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  std::string line;
  if (const auto size = fs::file_size(path, error); last && !error && size > kTail) {
    in.seekg(static_cast<std::streamoff>(size - kTail));
    std::getline(in, line);  // the rest of one that began before
    more = true;
  }
  std::vector<Json> rows;
  while (std::getline(in, line)) {
    if (!last && rows.size() == kMostRows) {
      more = true;
      break;
    }
    if (line.size() > kLongestRow) continue;
    if (auto row = io::parse_json(line, "row"); row && row->is_object()) rows.push_back(std::move(*row));
    if (rows.size() <= kMostRows) continue;
    rows.erase(rows.begin());
    more = true;
  }
  if (last) std::ranges::reverse(rows);
  return Json(rows);
}

}  // namespace

Json samples_of(const fs::path& folder) {
  std::vector<fs::path> files;
  find_files(folder, 1, files);
  std::ranges::sort(files);
  if (files.size() > kMostFiles) files.resize(kMostFiles);
  Json out = Json::array();
  for (const fs::path& file : files) {
    Json one = Json::object();
    bool more = false;
    one["name"] = file.lexically_relative(folder).string();
    one["rows"] = rows_of(file, file.filename() == "completions.jsonl", more);
    one["more"] = more;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tern::server
