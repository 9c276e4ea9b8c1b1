#include "cli/text_rows.h"

#include "base/strings.h"
#include "cli/dataset_hub.h"
#include "data/dataset.h"

namespace tern::cli {

void for_each_text(const Arguments& arguments,
                   const std::function<bool(const std::string& text, const std::string& place)>& take) {
  const auto& datasets = arguments.list("dataset");
  if (datasets.empty()) {
    throw Failure(usage_error(cat("tern ", arguments.command().name, " needs rows {\"text\"}"), "give --dataset FILE"));
  }
  data::LoadOptions options;
  options.strict = true;
  options.hub = dataset_hub(arguments);
  bool goes_on = true;
  for (const auto& spec : datasets) {
    if (!goes_on) return;
    (void)data::for_each_row(spec, options, [&](const data::Row& row) {
      const std::string place = cat(row.file, ":", row.line);
      if (!row.text) {
        throw Failure(data_error(place, "a row {\"text\"}", "a row of another format",
                                 "write it as {\"text\": ...}; tern inspect-data shows dialogues"));
      }
      if (row.images.size() + row.videos.size() + row.audios.size() > 0) {
        throw Failure(data_error(place, "text alone", "images, videos or audios beside it", "take the columns out"));
      }
      return goes_on = take(*row.text, place);
    }).value();
  }
}

}  // namespace tern::cli
