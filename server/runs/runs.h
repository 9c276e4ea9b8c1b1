// The runs of an output directory: those that are there, those that are going on, those that this server starts.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/json.h"
#include "server/runs/run_form.h"
#include "server/runs/run_process.h"

namespace tern::server {

// Any thread may call it. Functions that take a run's id throw Failure (usage) where there is no such run.
class Runs {
 public:
  explicit Runs(std::filesystem::path root) : root_(std::move(root)) {}

  // {"output_dir": ..., "runs": [...]}, the newest first; run_folder.h's summary_of.
  [[nodiscard]] io::Json list();
  // The rows of logging.jsonl after `offset`: {"rows": [...], "file", "offset", "begun_again", "more"}.
  [[nodiscard]] io::Json log(const std::string& id, std::uint64_t file, std::uint64_t offset);
  // What a run that was started here printed after `offset`: {"text", "offset"}.
  [[nodiscard]] io::Json output(const std::string& id, std::uint64_t offset);
  // args.json as it is, or what the form held of a run that failed before it wrote one; else {}.
  [[nodiscard]] std::string arguments(const std::string& id);
  [[nodiscard]] io::Json samples(const std::string& id);

  // Starts it, and gives its id. `values` are what its command was made of. Throws Failure.
  [[nodiscard]] std::string start(const RunCommand& command, const FormValues& values);
  // Asks a run that was started here to save and stop; `at_once`: ends it without. Throws Failure (usage) where it
  // isn't running, or was started elsewhere.
  void stop(const std::string& id, bool at_once);

  struct GoingOn {
    std::string id;
    std::int64_t pid = 0;
  };
  // Those of this server's children that run.
  [[nodiscard]] std::vector<GoingOn> going_on();

 private:
  void take_statuses();  // of children that have ended
  [[nodiscard]] io::Json summary(const std::string& id);

  std::filesystem::path root_;
  std::mutex mutex_;
  std::map<std::string, ProcessMark> children_;  // by id
  struct Kept {
    std::string files;  // as its files were
    io::Json summary;
  };
  std::map<std::string, Kept> kept_;  // of runs that aren't going on: a page asks for all each second
};

}  // namespace tern::server
