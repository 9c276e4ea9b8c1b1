// Bytes as what a hub says of a data set: its README up to the first NUL, a subset's name up to the second, then the
// repository's file names, one a line. An Error, or files that the repository has.
#include "data/hub_dataset.h"

#include <algorithm>

#include "base/strings.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\0');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\0', first + 1);
  if (second == std::string_view::npos) return 0;
  std::vector<std::string> files;
  for (const std::string_view line : tern::split(text.substr(second + 1), '\n')) files.emplace_back(line);
  const std::string subset(text.substr(first + 1, second - first - 1));
  const auto chosen = tern::data::choose_files(files, text.substr(0, first), subset, "f");
  if (!chosen) {
    tern::fuzz::require(chosen.error().line().starts_with("f"), "an error says where");
    return 0;
  }
  tern::fuzz::require(!chosen->empty(), "without a file to read it is an error");
  for (const std::string& file : *chosen) {
    tern::fuzz::require(std::find(files.begin(), files.end(), file) != files.end(), "only files that there are");
  }
  return 0;
}
