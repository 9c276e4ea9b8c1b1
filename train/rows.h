// What makes samples of rows, for a run and for whoever only tokenises.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/status.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"
#include "session/session.h"
#include "train/tasks/task.h"

namespace tern::train {

// The encoder of a task over the session's text, which was opened by `opened`. Of `encoding`, max_length 0 becomes the
// model's longest, and what tells the text apart is filled in. Throws Failure.
[[nodiscard]] std::shared_ptr<const data::RowEncoder> open_encoder(const Task& task, const session::Session& session,
                                                                   const session::SessionOptions& opened,
                                                                   data::ChatEncoderOptions& encoding);

struct CacheOptions {
  session::SessionOptions session;
  data::LoadOptions data;
  data::ChatEncoderOptions encoder;
  std::filesystem::path output_dir;
  bool replace = false;  // what is there already
};

struct CachedSets {
  std::filesystem::path train;       // "": there were no such rows
  std::filesystem::path validation;  // the same
  std::uint64_t train_samples = 0;
  std::uint64_t validation_samples = 0;
};

// Tokenises data sets into the folders `train` and `val` of output_dir (data/cached_dataset.h), without a model's
// weights. Samples tell their channels. Errors: usage (options), data (rows, tokenizer), failed (it can't be written).
[[nodiscard]] Result<CachedSets> cache_datasets(CacheOptions options);

}  // namespace tern::train
