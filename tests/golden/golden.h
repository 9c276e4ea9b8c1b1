// What the golden tests share: fixtures made by script/golden, the device, and tern's numbers for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accel/choice_cache.h"
#include "checkpoint/safetensors.h"
#include "data/batch.h"
#include "engine/pooler.h"
#include "graph/program.h"
#include "models/adapter.h"
#include "models/loader.h"
#include "tests/support/temp_dir.h"
#include "train/micro_batch.h"
#include "train/trainer.h"

namespace tern::golden {

// The cpu plugin of this build.
[[nodiscard]] accel::DevicePtr cpu_device();
[[nodiscard]] std::filesystem::path fixture(const std::string& name);  // under tests/data/golden

// Numbers of a .safetensors fixture.
class Numbers {
 public:
  explicit Numbers(const std::filesystem::path& file);
  [[nodiscard]] std::vector<float> floats(const std::string& name) const;
  [[nodiscard]] std::vector<std::int32_t> ints(const std::string& name) const;
  [[nodiscard]] std::vector<std::int64_t> shape(const std::string& name) const;
  // Those whose name begins with `prefix`, by the rest of their name.
  [[nodiscard]] std::map<std::string, std::vector<float>> with_prefix(const std::string& prefix) const;

 private:
  const checkpoint::SafetensorsTensor& at(const std::string& name) const;
  checkpoint::Safetensors file_;
};

[[nodiscard]] models::LoadedModel load(const std::filesystem::path& path, bool fp32_masters = false,
                                       tern_dtype dtype = TERN_F32);
// Of any head (models::Heads::any).
[[nodiscard]] models::LoadedModel load_any(const std::filesystem::path& path);
[[nodiscard]] std::vector<float> download(const graph::TensorStore& store, const std::string& name);
// The training samples of a tiny model's golden.safetensors.
[[nodiscard]] data::EncodedDataset samples(const Numbers& numbers);

// A model's name as a name of a test may be.
[[nodiscard]] std::string name_of_test(std::string model);
// Places 0 to count - 1.
[[nodiscard]] std::vector<std::int32_t> all_rows(std::size_t count);
// A directory or a GGUF written into `scratch` as a GGUF of that type; gives its path.
[[nodiscard]] std::filesystem::path write_gguf(const std::filesystem::path& from, const std::string& outtype,
                                               const test::TempDir& scratch);

using Adapters = std::map<std::string, nn::LoraLayer>;

// Logits in one run without a cache: [rows, vocab], `rows` being places in `tokens`, which are one text, or several of
// these lengths end to end.
[[nodiscard]] std::vector<float> prefill_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                                const std::vector<std::int32_t>& rows, tern_dtype compute,
                                                const Adapters& adapters = {},
                                                const std::vector<std::int32_t>& lengths = {}, std::uint32_t needs = 0);
// The same through the engine's paged cache, in steps of `chunks` tokens (the last size repeats): the logits of each
// step's last token, [steps, vocab]. Blocks of the cache are taken out of order; it holds `cache`.
[[nodiscard]] std::vector<float> paged_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                              const std::vector<std::int64_t>& chunks, tern_dtype compute,
                                              const Adapters& adapters = {}, tern_dtype cache = TERN_F32);

// Logits of each token, one at a time as in decoding; in x15 or int8, if `whole` says so, where the device has loops
// for the weights.
[[nodiscard]] std::vector<float> decode_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                               tern_compute whole = TERN_COMPUTE_F32);

// Texts of these lengths, which lie end to end.
using Texts = std::vector<std::span<const std::int32_t>>;
[[nodiscard]] Texts texts_of(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& lengths);
// What is made of texts, all rows end to end, `together` at a time.
struct PooledRun {
  engine::Pooling pooling = engine::Pooling::last;
  engine::PooledOutput output = engine::PooledOutput::hidden;
  std::size_t together = 1;
  std::uint32_t needs = 0;
};
[[nodiscard]] std::vector<float> pooled(models::LoadedModel& model,
                                        std::span<const std::span<const std::int32_t>> texts, const PooledRun& run);

// Loss and gradients of one optimizer step.
struct Gradients {
  double loss = 0;
  std::map<std::string, std::vector<float>> by_parameter;
  std::size_t num_nodes = 0;    // of the program that computed them
  std::uint64_t live_peak = 0;  // bytes of intermediates that live at once
};
struct StepOptions {
  data::BatchOptions batches;
  train::TrainingGraphOptions graph;   // capacity is filled in
  bool average_micro_batches = false;  // the mistake that the split law exists to catch
};
[[nodiscard]] Gradients step_gradients(models::LoadedModel& model, const data::EncodedDataset& dataset,
                                       const StepOptions& options);

// A Trainer's whole run over samples in their order, with what each step logged. Of `options` the caller sets what is
// trained, its output_dir, how many steps there are, and what it saves; the rate is 1e-3, and AdamW, clipping and
// schedule are as they are by default.
struct StepLog {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  train::TrainResult result;
};
[[nodiscard]] StepLog train_steps(models::LoadedModel& model, const train::ModelSaver& saver,
                                  const data::EncodedDataset& dataset, const data::BatchOptions& batches,
                                  train::TrainerOptions options);

[[nodiscard]] double max_difference(std::span<const float> a, std::span<const float> b);
// |a - b| / |b| in the Euclidean norm; infinite where the sizes differ or something is not finite.
[[nodiscard]] double relative_error(std::span<const float> a, std::span<const float> b);
// The largest relative error over the parameters; infinite where their names differ.
[[nodiscard]] double worst_error(const Gradients& a, const Gradients& b);

}  // namespace tern::golden
