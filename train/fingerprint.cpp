#include "train/fingerprint.h"

#include <vector>

#include "base/strings.h"

namespace tern::train {
Status require_same(const std::filesystem::path& checkpoint, const Fingerprint& was, const Fingerprint& is) {
  auto found = data::differences(was.fixed, is.fixed);
  if (found.empty()) return Unit{};
  const std::string where = cat("--resume_from_checkpoint ", checkpoint.string());
  if (found.size() == 1 && found[0].name == data::kDatasetSetting) {
    return data_error(where, cat("the data of the run that wrote it: ", found[0].was), found[0].is,
                      "give the same data, or start a new run from its weights with --resume_only_model");
  }
  // Another template makes other samples: what was changed is told, not what came of it.
  std::erase_if(found, [](const data::Difference& it) { return it.name == data::kDatasetSetting; });
  std::vector<std::string> before;
  std::vector<std::string> now;
  for (const data::Difference& it : found) {
    before.push_back(cat(it.name, " ", it.was));
    now.push_back(cat(it.name, " ", it.is));
  }
  return usage_error(cat("cannot resume from ", checkpoint.string(), ": its run had ", join(before, ", "),
                         ", and this one has ", join(now, ", ")),
                     "give the same, or start a new run from its weights with --resume_only_model");
}

std::vector<std::string> changes(const Fingerprint& was, const Fingerprint& is) {
  std::vector<std::string> out;
  for (const data::Difference& it : data::differences(was.changeable, is.changeable)) {
    out.push_back(cat("the run goes on with ", it.name, " ", it.is, ", which was ", it.was));
  }
  return out;
}

}  // namespace tern::train
