// Remembered kernel choices: measured once per device, driver and op, kept on disk, and recorded for a run so that a
// resumed one replays exactly what the first one ran.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "accel/kernel.h"

namespace tern::accel {

class ChoiceCache {
 public:
  ChoiceCache() = default;
  // Reads the choices of `device` kept under `dir`; a missing or broken file is an empty cache.
  ChoiceCache(const Device& device, const std::filesystem::path& dir);

  // Plans with the remembered choice, if any, and remembers what came out. A choice that the device no longer has (a
  // checkpoint of another machine, a broken cache) is made anew, with a line that says so.
  [[nodiscard]] Plan plan(const DevicePtr& device, const OpDesc& desc, PlanOptions options = {});

  // The same for what is no single op, a compiled graph: the remembered choice of `key` ("" where there is none), and
  // what came out.
  [[nodiscard]] std::string remembered(const std::string& key) const;
  void remember(const std::string& key, const std::string& choice);

  // What this run chose, by OpDesc::key: goes into a checkpoint, and comes back from it before the first plan.
  [[nodiscard]] const std::map<std::string, std::string>& used() const { return used_; }
  void replay(const std::map<std::string, std::string>& choices);

  // Where compiled graphs of the same device are kept; empty: nowhere.
  [[nodiscard]] std::filesystem::path recipe_dir() const;

  // Writes new choices through a temporary file and a rename, so that two processes may do so at once.
  void save() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, std::string> known_;
  std::map<std::string, std::string> used_;
  bool changed_ = false;
  bool told_ = false;  // that some choice was made anew
};

}  // namespace tern::accel
