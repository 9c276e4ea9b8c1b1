// Data sets and metrics that a user's Python registers as for ms-swift (`--external_plugins`): it runs in a process of
// its own, with python3, through the shim of data/plugins, and speaks JSON lines. Its rows become a file that is read
// like any other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/dataset.h"

namespace tern::data {

// The shim's text, which tern carries.
[[nodiscard]] std::string_view plugin_shim();

class PluginHost {
 public:
  // Starts python3 and has it run `files`: Python that registers data sets, or JSON that describes some. Errors: no
  // python3; a file that does not run, with its place.
  [[nodiscard]] static Result<std::unique_ptr<PluginHost>> start(const std::vector<std::string>& files);
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;
  ~PluginHost();

  // What the plugins asked for that the shim lacks: `swift.rewards.orms['mine']`.
  [[nodiscard]] const std::vector<std::string>& lacking() const { return lacking_; }

  // The rows of a registered data set, `word` without its `#N`, written to a file in `folder`; nothing where no plugin
  // registers it. A row on which the plugin fails is dropped with a warning, or is the Error with `strict`.
  struct Wanted {
    std::string word;
    bool use_hf = false;
    bool strict = false;
  };
  [[nodiscard]] Result<std::optional<std::filesystem::path>> rows(const Wanted& wanted, const HubResolver& hub,
                                                                  const std::filesystem::path& folder);

  // What the metric of this name makes of answers and the rows' own, by the names that it gives its numbers.
  using Numbers = std::vector<std::pair<std::string, double>>;
  [[nodiscard]] Result<Numbers> metric(const std::string& name, const std::vector<std::string>& answers,
                                       const std::vector<std::string>& labels);

 private:
  struct Rows;
  PluginHost() = default;
  void send(std::string line) const;
  [[nodiscard]] std::string receive();  // a line; throws Failure where the process has ended
  void take_lacking(const std::string& line);
  void pass_rows(std::size_t handle, const std::vector<std::string>& files, Rows& rows);
  void load_rows(std::size_t handle, Rows& rows);

  int socket_ = -1;
  int process_ = -1;
  std::string buffer_;
  std::vector<std::string> lacking_;
};

// `--dataset` words with each that a plugin registers replaced by the file of its rows, its `#N` kept. Throws Failure.
void use_plugins(PluginHost& host, LoadOptions& options, bool use_hf);

}  // namespace tern::data
