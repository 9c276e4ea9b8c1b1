// What a checkpoint holds and how it is written: whole or not at all, checksummed, independent of batch and device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/tensor_store.h"
#include "train/adaptive_rate.h"
#include "train/fingerprint.h"
#include "train/loss_scale.h"
#include "train/reporting/log_window.h"

namespace tern::train {

// trainer_state.json: where training stands, in ms-swift's and transformers' keys, and what resuming replays.
struct TrainState {
  std::string run_id;            // of the run that wrote it: inherited by one that resumes
  Fingerprint fingerprint;       // what a run that resumes is compared with
  std::int64_t global_step = 0;  // optimizer steps done
  std::int64_t max_steps = 0;
  std::int64_t skipped_steps = 0;                  // of these, that changed nothing: gradients overflowed fp16
  std::vector<std::int64_t> missed_steps;          // of LISA, by layer: those that trained others
  std::optional<LossScale> loss_scale;             // of the next step, where there is one
  std::optional<AdaptiveRateState> adaptive_rate;  // of a schedule that follows the held-out loss
  std::int64_t epoch = 0;                          // of the next step
  std::int64_t step_in_epoch = 0;
  double epoch_progress = 0;
  std::int64_t tokens = 0;          // trained on so far
  std::int64_t planned_tokens = 0;  // of a stream: MicroBatchRunner::grown()
  std::optional<double> best_metric;
  std::string best_checkpoint;
  std::int64_t saves_without_gain = 0;  // saves since the best metric's, this one included
  LogWindow window;
  std::map<std::string, std::string> kernel_choices;  // OpDesc::key -> choice
};

// Writes the weights of a run: an adapter or a whole model.
class ModelSaver {
 public:
  virtual ~ModelSaver() = default;
  virtual void save(const std::filesystem::path& directory) const = 0;
};

struct CheckpointContent {
  const ModelSaver* model = nullptr;
  const graph::TensorStore* store = nullptr;
  std::vector<std::string> optimizer_tensors;  // stored names; empty: save_only_model
  std::string args_json;
  std::uint64_t seed = 0;
};

// Writes `directory` beside its place, flushes, checksums and renames it. Errors: a full disk, no permission.
[[nodiscard]] Status write_checkpoint(const std::filesystem::path& directory, const TrainState& state,
                                      const CheckpointContent& content);

// The state of a sound checkpoint. Errors (data): what is absent or does not match its checksum.
[[nodiscard]] Result<TrainState> read_train_state(const std::filesystem::path& directory);
// Fills the named tensors from optimizer.safetensors.
[[nodiscard]] Status read_optimizer(const std::filesystem::path& directory, graph::TensorStore& store,
                                    const std::vector<std::string>& tensors);

// The id of the run that wrote a checkpoint; empty where it doesn't tell.
[[nodiscard]] std::string run_of(const std::filesystem::path& directory);

// checkpoint-N folders by rising N, of any run.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& output_dir);
// The newest whose manifest and checksums hold; broken ones are warned of. None: empty path.
[[nodiscard]] std::filesystem::path newest_sound_checkpoint(const std::filesystem::path& output_dir);

}  // namespace tern::train
