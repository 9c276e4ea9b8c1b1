#include "train/fingerprint.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::train {
namespace {

struct Difference {
  std::string name;
  std::string was;
  std::string is;
};

const std::string* find(const data::Settings& settings, const std::string& name) {
  const auto at = std::find_if(settings.begin(), settings.end(), [&](const auto& it) { return it.first == name; });
  return at == settings.end() ? nullptr : &at->second;
}

std::string shown(const std::string* value) { return value == nullptr || value->empty() ? "none" : *value; }

std::vector<Difference> differences(const data::Settings& was, const data::Settings& is) {
  std::vector<Difference> out;
  const auto compare = [&](const std::string& name) {
    const std::string before = shown(find(was, name));
    const std::string now = shown(find(is, name));
    if (before != now) out.push_back({name, before, now});
  };
  for (const auto& [name, value] : is) compare(name);
  for (const auto& [name, value] : was) {
    if (find(is, name) == nullptr) compare(name);
  }
  return out;
}

}  // namespace

Status require_same(const std::filesystem::path& checkpoint, const Fingerprint& was, const Fingerprint& is) {
  auto found = differences(was.fixed, is.fixed);
  if (found.empty()) return Unit{};
  const std::string where = cat("--resume_from_checkpoint ", checkpoint.string());
  if (found.size() == 1 && found[0].name == data::kDatasetSetting) {
    return data_error(where, cat("the data of the run that wrote it: ", found[0].was), found[0].is,
                      "give the same data, or start a new run from its weights with --resume_only_model");
  }
  // Another template makes other samples: what was changed is told, not what came of it.
  std::erase_if(found, [](const Difference& it) { return it.name == data::kDatasetSetting; });
  std::vector<std::string> before;
  std::vector<std::string> now;
  for (const Difference& it : found) {
    before.push_back(cat(it.name, " ", it.was));
    now.push_back(cat(it.name, " ", it.is));
  }
  return usage_error(cat("cannot resume from ", checkpoint.string(), ": its run had ", join(before, ", "),
                         ", and this one has ", join(now, ", ")),
                     "give the same, or start a new run from its weights with --resume_only_model");
}

std::vector<std::string> changes(const Fingerprint& was, const Fingerprint& is) {
  std::vector<std::string> out;
  for (const Difference& it : differences(was.changeable, is.changeable)) {
    out.push_back(cat("the run goes on with ", it.name, " ", it.is, ", which was ", it.was));
  }
  return out;
}

}  // namespace tern::train
