// Bytes as a data file: whatever they are, reading ends with rows or with an Error, and a good row written as JSON
// reads back equal.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/dataset_spec.h"
#include "data/row.h"
#include "chat/template_messages.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace tern::data;

void require(bool holds, const char* law, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", law, detail.c_str());
  std::abort();
}

void check_row(Normalizer& normalizer, const Row& row) {
  (void)tern::chat::template_messages(row.messages).ok();
  RawRow again;
  again.json = to_json(row);
  const auto back = normalizer.row(again, "again");
  require(back.ok(), "a row's JSON is a good row", again.json);
  require(back->messages == row.messages && back->rejected == row.rejected && back->text == row.text &&
              back->label == row.label && back->margin == row.margin && back->tools_json == row.tools_json &&
              back->images == row.images && back->videos == row.videos && back->audios == row.audios,
          "a row's JSON reads back equal", again.json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tern::test::TempDir folder;  // the readers take paths
  const std::string file = folder.write("rows", {reinterpret_cast<const char*>(data), size});
  NormalizeOptions options;
  options.columns = {{"renamed", "query"}};
  Normalizer normalizer(options);
  auto reader = open_rows(file, ReaderLimits{std::size_t{1} << 16});
  RawRow raw;
  while (reader.ok()) {
    const auto more = (*reader)->next(raw);
    if (!more.ok() || !*more) break;
    const auto row = normalizer.row(raw, "f");
    if (row) {
      check_row(normalizer, *row);
    } else {
      require(!row.error().line().empty(), "an error says something", raw.json);
    }
  }
  (void)parse_dataset_spec(std::string_view(reinterpret_cast<const char*>(data), size)).ok();
  (void)parse_columns(std::string_view(reinterpret_cast<const char*>(data), size)).ok();
  return 0;
}
