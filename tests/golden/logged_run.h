// Whole runs whose log a peer's is compared with: 20 steps over samples in their order, which are held out, too.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "golden.h"

namespace tern::golden {

struct LoggedRun {
  std::filesystem::path folder;  // of the model, and of `adapter` below it
  bool full = false;             // else the adapter is trained
  data::BatchOptions batches;
  train::TrainingGraphOptions graph;  // what is trained is filled in
};
// By key, each row's; `losses` and `grad_norms` are those of the steps.
using Log = std::map<std::string, std::vector<double>>;
[[nodiscard]] Log train_and_log(const LoggedRun& run, const data::EncodedDataset& dataset);

// Every number of the peer's is in the log: of the first step within 1e-5, of others within 1e-3.
void expect_logged(const Log& log, const std::map<std::string, std::vector<float>>& numbers);

}  // namespace tern::golden
