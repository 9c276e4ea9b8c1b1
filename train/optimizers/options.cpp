#include "train/optimizers/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace tern::train {
namespace {

struct Name {
  std::string_view name;
  OptimizerKind kind;
};
// The first of each kind is what tern calls it. bitsandbytes pages states to the host's memory where a GPU's is short:
// paged_* compute the same.
constexpr std::array<Name, 14> kNames = {{
    {"adamw", OptimizerKind::adamw},
    {"adamw_torch", OptimizerKind::adamw},
    {"adamw_torch_fused", OptimizerKind::adamw},
    {"adamw_torch_npu_fused", OptimizerKind::adamw},
    {"adamw_torch_xla", OptimizerKind::adamw},
    {"paged_adamw_32bit", OptimizerKind::adamw},
    {"adamw_8bit", OptimizerKind::adamw_8bit},
    {"adamw_bnb_8bit", OptimizerKind::adamw_8bit},
    {"paged_adamw_8bit", OptimizerKind::adamw_8bit},
    {"sgd", OptimizerKind::sgd},
    {"lion_32bit", OptimizerKind::lion},
    {"paged_lion_32bit", OptimizerKind::lion},
    {"adafactor", OptimizerKind::adafactor},
    {"muon", OptimizerKind::muon},
}};

std::string_view names_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "momentum dampening weight_decay nesterov";
    case OptimizerKind::adafactor:
      return "clip_threshold decay_rate beta1 scale_parameter";
    case OptimizerKind::muon:
      return "momentum nesterov ns_steps";
    default:
      return "";
  }
}

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw Failure(usage_error(cat("--optim_args gives ", name, " as \"", value, "\", which is not ", expected),
                            cat("give ", name, "=", expected == "true or false" ? "true" : "0.9")));
}

double number(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) refuse(name, text, "a number");
  return value;
}

bool truth(std::string_view name, std::string_view text) {
  if (text == "true" || text == "True" || text == "1" || text == "yes") return true;
  if (text == "false" || text == "False" || text == "0" || text == "no") return false;
  refuse(name, text, "true or false");
}

void take(std::string_view name, std::string_view text, OptimizerOptions& o) {
  const bool muon = o.kind == OptimizerKind::muon;
  if (name == "momentum") {
    (muon ? o.muon.momentum : o.sgd.momentum) = number(name, text);
  } else if (name == "nesterov") {
    (muon ? o.muon.nesterov : o.sgd.nesterov) = truth(name, text);
  } else if (name == "ns_steps") {
    o.muon.ns_steps = static_cast<std::int64_t>(number(name, text));
    if (o.muon.ns_steps < 1 || o.muon.ns_steps > 99) refuse(name, text, "a number from 1 to 99");
  } else if (name == "dampening") {
    o.sgd.dampening = number(name, text);
  } else if (name == "weight_decay") {
    o.adamw.weight_decay = number(name, text);
  } else if (name == "clip_threshold") {
    o.adafactor.clip_threshold = number(name, text);
  } else if (name == "decay_rate") {
    o.adafactor.decay_rate = number(name, text);
  } else if (name == "beta1") {
    o.adafactor.beta1 = number(name, text);
  } else if (name == "scale_parameter") {
    o.adafactor.scale_parameter = truth(name, text);
  }
}

}  // namespace

std::optional<OptimizerKind> optimizer_kind(std::string_view name) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& it) { return it.name == name; });
  if (found == kNames.end()) return std::nullopt;
  return found->kind;
}

std::string_view optimizer_name(OptimizerKind kind) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& it) { return it.kind == kind; });
  return found == kNames.end() ? std::string_view() : found->name;
}

std::optional<GaloreType> galore_type(std::string_view name) {
  if (name == "std") return GaloreType::std;
  if (name == "reverse_std") return GaloreType::reverse_std;
  if (name == "right") return GaloreType::right;
  if (name == "left") return GaloreType::left;
  if (name == "full") return GaloreType::full;
  return std::nullopt;
}

std::string galore_state_text(const GaloreOptions& galore) {
  if (!galore.quantised) return galore.per_parameter ? ", an optimizer each" : "";
  const QGaloreOptions& q = *galore.quantised;
  const std::string projections = q.projections ? cat(", projections in ", q.bits, " bits by ", q.group_size) : "";
  return cat(", moments in 8 bits", projections, ", ", q.queue_size, " cosines");
}

Status take_optimizer_arguments(std::string_view text, OptimizerOptions& options) {
  return catching([&] {
    options.arguments = text;
    std::string plain(text);
    std::erase(plain, ' ');
    const std::string_view known = names_of(options.kind);
    const auto words = split(known, ' ');
    for (const std::string_view one : split(plain, ',')) {
      if (one.empty()) continue;
      const std::size_t equals = one.find('=');
      const std::string_view name = one.substr(0, equals);
      if (known.empty() || std::find(words.begin(), words.end(), name) == words.end()) {
        throw Failure(usage_error(
            cat("--optim_args names ", name, ", which --optim ", optimizer_name(options.kind), " does not take"),
            known.empty() ? "leave --optim_args out"
                          : cat("give some of: ", join(std::vector<std::string>(words.begin(), words.end()), ", "))));
      }
      take(name, equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1), options);
    }
    if (options.sgd.nesterov && !(options.sgd.momentum > 0 && options.sgd.dampening == 0)) {
      throw Failure(usage_error("--optim_args gives nesterov=true, which needs momentum and no dampening",
                                "give momentum=0.9,nesterov=true"));
    }
    return Unit{};
  });
}

}  // namespace tern::train
