// Which optimizer, and its settings.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::train {

enum class OptimizerKind { adamw, adamw_8bit, sgd, lion, adafactor, muon };

// Of transformers' name (`adamw_torch_fused`, `paged_lion_32bit`): none where tern has no such optimizer.
[[nodiscard]] std::optional<OptimizerKind> optimizer_kind(std::string_view name);
[[nodiscard]] std::string_view optimizer_name(OptimizerKind kind);

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double max_grad_norm = 1.0;  // 0: no clipping
};

struct SgdOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
};

// The learning rate is the schedule's, as transformers' trainer asks of Adafactor (relative_step=False).
struct AdafactorOptions {
  double eps1 = 1e-30;  // added to squares of gradients
  double eps2 = 1e-3;   // least rms of a parameter, where the rate is scaled by it
  double clip_threshold = 1;
  double decay_rate = -0.8;
  std::optional<double> beta1;  // none: no momentum
  bool scale_parameter = false;
};

// As Moonlight's Muon, which ms-swift takes (Liu et al., "Muon is Scalable for LLM Training", 2025).
struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
};

// LoRA+ (Hayou et al., 2024), as ms-swift groups parameters: B of each adapter, and vectors, take `lr_ratio` times the
// rate; tables of tokens that are trained as they are take a rate of their own.
struct LoraPlusOptions {
  double lr_ratio = 16;
  double embedding_ratio = 1;  // of the rate: 1e-6 / learning_rate
};

enum class GaloreType { std, reverse_std, right, left, full };

// Q-GaLore (optimizers/galore_projection.h): moments in 8 bits, and projections that are found the less often the less
// they turn.
struct QGaloreOptions {
  bool projections = false;  // are kept in few bits, too
  std::int64_t bits = 4;     // 2, 3, 4 or 8
  std::int64_t group_size = 256;
  double cos_threshold = 0.4;
  std::int64_t gamma = 2;
  std::int64_t queue_size = 5;
};

// AdamW upon projections of the gradients of some matrices; the others have AdamW itself.
struct GaloreOptions {
  std::int64_t rank = 128;
  std::int64_t update_proj_gap = 50;  // steps that a projection is kept for
  double scale = 1;
  GaloreType type = GaloreType::std;
  std::vector<std::string> target_modules;  // parts of layers' names; none: all linear layers
  bool with_embedding = false;
  std::set<std::string> parameters;  // stored names, of the target modules
  std::optional<QGaloreOptions> quantised = std::nullopt;
  // An optimizer for each parameter, as ms-swift makes them: all of them decay, and the gap and the schedule are twice
  // as long as they are told.
  bool per_parameter = false;
};
[[nodiscard]] std::optional<GaloreType> galore_type(std::string_view name);
// How its projections and moments are kept, for a run that resumes.
[[nodiscard]] std::string galore_state_text(const GaloreOptions& galore);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  AdamwOptions adamw;  // betas are Lion's too; decay and clipping every optimizer's
  SgdOptions sgd;
  AdafactorOptions adafactor;
  MuonOptions muon;
  std::string arguments;  // --optim_args, as given
  std::optional<LoraPlusOptions> lora_plus;
  std::optional<GaloreOptions> galore;
  // The parameters that the first steps change, where they aren't all: Optimizer::train_only.
  std::optional<std::vector<std::string>> at_first = std::nullopt;
};

// Takes `--optim_args momentum=0.9,nesterov=true` into `options` of that kind. Errors (usage): a name that the
// optimizer doesn't take, a value that it can't have.
[[nodiscard]] Status take_optimizer_arguments(std::string_view text, OptimizerOptions& options);

}  // namespace tern::train
