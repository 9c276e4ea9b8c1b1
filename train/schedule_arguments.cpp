// `lr_scheduler_kwargs`: which schedule takes which, and what they may be.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/strings.h"
#include "io/json_field.h"
#include "train/schedule.h"

namespace tern::train {
namespace {

constexpr std::string_view kFlag = "--lr_scheduler_kwargs";
constexpr const char* kMend = "give what transformers' schedule of that name takes";

struct Taken {
  ScheduleKind kind;
  std::string_view names;  // a space apart
};
constexpr std::array<Taken, 9> kTaken = {{
    {ScheduleKind::cosine, "num_cycles"},
    {ScheduleKind::cosine_with_restarts, "num_cycles"},
    {ScheduleKind::polynomial, "lr_end power"},
    {ScheduleKind::inverse_sqrt, "timescale"},
    {ScheduleKind::reduce_lr_on_plateau, "mode factor patience threshold threshold_mode cooldown min_lr eps"},
    {ScheduleKind::cosine_with_min_lr, "num_cycles min_lr min_lr_rate"},
    {ScheduleKind::cosine_warmup_with_min_lr, "num_cycles min_lr min_lr_rate warmup_lr_rate"},
    {ScheduleKind::warmup_stable_decay,
     "num_decay_steps num_stable_steps warmup_type decay_type min_lr_ratio num_cycles"},
    {ScheduleKind::greedy,
     "mode factor patience threshold threshold_mode cooldown warmup min_lr max_lr eps smooth window_size reset_start"},
}};

std::string_view names_of(ScheduleKind kind) {
  const auto* found = std::find_if(kTaken.begin(), kTaken.end(), [&](const Taken& it) { return it.kind == kind; });
  return found == kTaken.end() ? std::string_view() : found->names;
}

void require_known(ScheduleKind kind, const io::JsonField& json) {
  const auto words = split(names_of(kind), ' ');
  const std::vector<std::string> names(words.begin(), words.end());
  for (const auto& member : json.object()) {
    if (std::find(names.begin(), names.end(), member.key) != names.end()) continue;
    throw Failure(usage_error(
        cat(kFlag, " names ", member.key, ", which --lr_scheduler_type ", schedule_name(kind), " does not take"),
        names_of(kind).empty() ? cat("leave ", kFlag, " out") : cat("give some of: ", join(names, ", "))));
  }
}

bool one_of_two(const io::JsonField& json, const char* name, std::string_view first, std::string_view second,
                std::string_view otherwise) {
  const auto field = json.find(name);
  const std::string_view word = field ? field->text() : otherwise;
  if (word != first && word != second) throw field->wrong(cat("\"", first, "\" or \"", second, "\""));
  return word == first;
}

RampShape ramp(const io::JsonField& json, const char* name, RampShape otherwise) {
  const auto field = json.find(name);
  if (!field) return otherwise;
  if (field->text() == "linear") return RampShape::linear;
  if (field->text() == "cosine") return RampShape::cosine;
  if (field->text() == "1-sqrt") return RampShape::one_minus_sqrt;
  throw field->wrong("\"linear\", \"cosine\" or \"1-sqrt\"");
}

std::int64_t natural(const io::JsonField& json, const char* name, std::int64_t otherwise) {
  const auto field = json.find(name);
  return field ? static_cast<std::int64_t>(field->natural()) : otherwise;
}

AdaptiveRateOptions adaptive(ScheduleKind kind, const io::JsonField& json) {
  AdaptiveRateOptions o;
  o.greedy = kind == ScheduleKind::greedy;
  if (o.greedy) {
    o.factor = 0.95;
    o.threshold = 1e-6;
    o.min_lr = 1e-3;
  }
  o.lower_is_better = one_of_two(json, "mode", "min", "max", "min");
  o.relative_threshold = one_of_two(json, "threshold_mode", "rel", "abs", o.greedy ? "abs" : "rel");
  o.factor = json.number("factor", o.factor);
  if (o.factor >= 1) throw json.at("factor").wrong("a number below 1");
  o.patience = natural(json, "patience", o.patience);
  o.threshold = json.number("threshold", o.threshold);
  o.cooldown = natural(json, "cooldown", o.cooldown);
  o.min_lr = json.number("min_lr", o.min_lr);
  o.eps = json.number("eps", o.eps);
  o.max_lr = json.number("max_lr", o.max_lr);
  o.warmup = natural(json, "warmup", o.warmup);
  o.smooth = json.boolean("smooth", o.smooth);
  o.window_size = natural(json, "window_size", o.window_size);
  if (o.window_size == 0) throw json.at("window_size").wrong("an integer of at least 1");
  o.reset_start = natural(json, "reset_start", o.reset_start);
  return o;
}

// The peak's share that a cosine ends at: one of the two, in a schedule that has a lowest rate at all.
double lowest_share(ScheduleKind kind, const io::JsonField& json, double peak) {
  const auto rate = json.find("min_lr_rate");
  const auto absolute = json.find("min_lr");
  if (rate.has_value() == absolute.has_value()) {
    throw Failure(
        usage_error(cat("--lr_scheduler_type ", schedule_name(kind), " needs one of min_lr and min_lr_rate in ", kFlag),
                    cat("give ", kFlag, " '{\"min_lr_rate\": 0.1}'")));
  }
  return rate ? rate->number() : peak > 0 ? absolute->number() / peak : 0;
}

}  // namespace

Result<ScheduleArguments> schedule_arguments(ScheduleKind kind, std::string_view text, double peak) {
  return catching([&] {
    const auto parsed = io::parse_json(text.empty() ? "{}" : text, std::string(kFlag));
    if (!parsed.ok()) {
      throw Failure(usage_error(cat(kFlag, " is no JSON: ", parsed.error().line()),
                                cat("give an object, as in ", kFlag, " '{\"num_cycles\": 2}'")));
    }
    const io::JsonField json(*parsed, std::string(kFlag), kMend);
    require_known(kind, json);
    ScheduleArguments out;
    out.text = text;
    out.num_cycles = json.number("num_cycles", kind == ScheduleKind::cosine_with_restarts ? 1 : out.num_cycles);
    out.lr_end = json.number("lr_end", out.lr_end);
    if (kind == ScheduleKind::polynomial && !(peak > out.lr_end)) {
      throw Failure(usage_error(
          cat("--lr_scheduler_type polynomial ends at ", out.lr_end, ", which is not below --learning_rate ", peak),
          cat("give a smaller lr_end in ", kFlag)));
    }
    out.power = json.number("power", out.power);
    out.timescale = natural(json, "timescale", out.timescale);
    if (kind == ScheduleKind::cosine_with_min_lr || kind == ScheduleKind::cosine_warmup_with_min_lr) {
      out.min_lr_rate = lowest_share(kind, json, peak);
      if (const auto first = json.find("warmup_lr_rate")) out.warmup_lr_rate = first->number();
    }
    if (kind == ScheduleKind::warmup_stable_decay) {
      if (!json.find("num_decay_steps")) {
        throw Failure(usage_error(cat("--lr_scheduler_type warmup_stable_decay needs num_decay_steps in ", kFlag),
                                  cat("give ", kFlag, " '{\"num_decay_steps\": 100}'")));
      }
      out.num_decay_steps = natural(json, "num_decay_steps", 0);
      if (json.find("num_stable_steps")) out.num_stable_steps = natural(json, "num_stable_steps", 0);
      out.warmup_type = ramp(json, "warmup_type", out.warmup_type);
      out.decay_type = ramp(json, "decay_type", out.decay_type);
      out.min_lr_ratio = json.number("min_lr_ratio", out.min_lr_ratio);
    }
    if (follows_loss(kind)) out.adaptive = adaptive(kind, json);
    return out;
  });
}

}  // namespace tern::train
