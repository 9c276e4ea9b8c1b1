#include "accel/choice_cache.h"

#include <fstream>
#include <optional>

#include "accel/cache_file.h"
#include "base/log.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

// A file name from a device's identity: what a choice must not outlive.
std::string identity(const Device& device) {
  std::string text = cat(device.backend().name(), "-", device.backend().api().version, "-", device.info().arch, "-",
                         device.info().driver_version, "-", device.info().name);
  for (char& c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  return text.substr(0, 200);
}

}  // namespace

ChoiceCache::ChoiceCache(const Device& device, const std::filesystem::path& dir) {
  if (dir.empty()) return;
  file_ = dir / (identity(device) + ".choices");
  std::ifstream in(file_);
  std::string line;
  while (std::getline(in, line)) {
    const auto tab = line.find('\t');
    if (tab != std::string::npos) known_[line.substr(0, tab)] = line.substr(tab + 1);
  }
}

Plan ChoiceCache::plan(const DevicePtr& device, const OpDesc& desc, PlanOptions options) {
  const std::string key = desc.key();
  const auto known = known_.find(key);
  std::optional<Plan> remembered;
  if (known != known_.end()) {
    options.choice = known->second;
    remembered = Plan::of_choice(device, desc, options);
    options.choice.clear();
    if (!remembered && !told_) {
      log_warn(cat(device->name(), ": a remembered kernel choice, ", known->second,
                   ", is gone; tern measures again, so the last bits may differ from earlier runs"));
      told_ = true;
    }
  }
  Plan plan = remembered ? std::move(*remembered) : Plan(device, desc, options);
  remember(key, plan.info().choice);
  return plan;
}

std::string ChoiceCache::remembered(const std::string& key) const {
  const auto known = known_.find(key);
  return known == known_.end() ? std::string() : known->second;
}

void ChoiceCache::remember(const std::string& key, const std::string& choice) {
  if (choice.empty()) return;
  used_[key] = choice;
  std::string& kept = known_[key];
  changed_ = changed_ || kept != choice;
  kept = choice;
}

void ChoiceCache::replay(const std::map<std::string, std::string>& choices) {
  for (const auto& [key, choice] : choices) known_[key] = choice;
}

std::filesystem::path ChoiceCache::recipe_dir() const {
  return file_.empty() ? file_ : std::filesystem::path(file_).replace_extension(".recipes");
}

void ChoiceCache::save() const {
  if (file_.empty() || !changed_) return;
  std::string text;
  for (const auto& [key, choice] : known_) text += cat(key, "\t", choice, "\n");
  write_cache_file(file_, text);
}

}  // namespace tern::accel
