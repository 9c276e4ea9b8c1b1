#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/atomic_dir.h"
#include "io/file_writer.h"
#include "io/json_field.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

constexpr const char* kStateFile = "trainer_state.json";
constexpr const char* kOptimizerStem = "optimizer";

Json settings_json(const data::Settings& settings) {
  Json json = Json::object();
  for (const auto& [name, value] : settings) json[name] = value;
  return json;
}

data::Settings read_settings(const io::JsonField& json) {
  data::Settings out;
  for (const Json::Member& one : json.object()) out.emplace_back(one.key, json.member(one).text());
  return out;
}

Json rate_json(const AdaptiveRateState& state) {
  Json json = {{"rate", state.rate},         {"bad", state.bad},       {"good", state.good},
               {"cooldown", state.cooldown}, {"warmup", state.warmup}, {"reset_in", state.reset_in}};
  if (state.best) json["best"] = *state.best;
  if (!state.window.empty()) {
    json["window"] = state.window;
    json["window_sum"] = state.window_sum;
  }
  return json;
}

AdaptiveRateState read_rate(const io::JsonField& json) {
  AdaptiveRateState state;
  state.rate = json.at("rate").number();
  if (const auto best = json.find("best")) state.best = best->number();
  state.bad = json.at("bad").integer();
  state.good = json.at("good").integer();
  state.cooldown = json.at("cooldown").integer();
  state.warmup = json.at("warmup").integer();
  state.reset_in = json.at("reset_in").integer();
  if (const auto window = json.find("window")) {
    for (const auto& loss : window->items()) state.window.push_back(loss.number());
    state.window_sum = json.at("window_sum").number();
  }
  return state;
}

Json state_json(const TrainState& state) {
  Json json;
  json["run_id"] = state.run_id;
  json["fingerprint"] = {{"fixed", settings_json(state.fingerprint.fixed)},
                         {"changeable", settings_json(state.fingerprint.changeable)}};
  json["global_step"] = state.global_step;
  json["max_steps"] = state.max_steps;
  if (state.skipped_steps > 0) json["skipped_steps"] = state.skipped_steps;
  if (!state.missed_steps.empty()) json["missed_steps"] = state.missed_steps;
  if (state.loss_scale) {
    json["loss_scale"] = {{"scale", state.loss_scale->scale}, {"sound_steps", state.loss_scale->sound_steps}};
  }
  if (state.adaptive_rate) json["adaptive_rate"] = rate_json(*state.adaptive_rate);
  json["epoch"] = state.epoch_progress;
  json["best_metric"] = state.best_metric ? Json(*state.best_metric) : Json(nullptr);
  json["best_model_checkpoint"] = state.best_checkpoint.empty() ? Json(nullptr) : Json(state.best_checkpoint);
  json["num_input_tokens_seen"] = state.tokens;
  json["next_epoch"] = state.epoch;
  json["next_step_in_epoch"] = state.step_in_epoch;
  if (state.planned_tokens > 0) json["planned_tokens"] = state.planned_tokens;
  json["saves_without_gain"] = state.saves_without_gain;
  json["log_window"] = {{"loss", state.window.loss}, {"steps", state.window.steps}};
  const Hits& hits = state.window.hits;
  json["log_window"]["hits"] = {{"right_tokens", hits.right_tokens},
                                {"tokens", hits.tokens},
                                {"right_samples", hits.right_samples},
                                {"samples", hits.samples}};
  json["kernel_choices"] = state.kernel_choices;
  return json;
}

// As safetensors calls it. What is quantised is kept as its bytes.
std::string dtype_word(const graph::TensorStore& store, const std::string& name) {
  const TensorDesc& desc = store.at(name).desc;
  return desc.dtype == TERN_U8 || is_quantised(desc) ? "U8" : "F32";
}

void write_optimizer(const fs::path& directory, const CheckpointContent& content) {
  std::vector<checkpoint::TensorSpec> specs;
  for (const std::string& name : content.optimizer_tensors) {
    const TensorDesc& desc = content.store->at(name).desc;
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(total_bytes(desc))};
    if (!is_quantised(desc)) shape.assign(desc.shape, desc.shape + desc.rank);
    specs.push_back({name, dtype_word(*content.store, name), std::move(shape)});
  }
  checkpoint::SafetensorsWriteOptions options;
  options.stem = kOptimizerStem;
  auto writer = checkpoint::SafetensorsWriter::create(directory, specs, options).value();
  for (const std::string& name : content.optimizer_tensors) {
    std::vector<std::byte> bytes(total_bytes(content.store->at(name).desc));
    content.store->download(name, bytes);
    writer.write(name, bytes).value();
  }
  writer.finish().value();
}

}  // namespace

Status write_checkpoint(const fs::path& directory, const TrainState& state, const CheckpointContent& content) {
  return catching([&] {
    auto target = io::AtomicDir::begin(directory, io::AtomicDir::Existing::replace).value();
    content.model->save(target.path());
    if (!content.optimizer_tensors.empty()) {
      write_optimizer(target.path(), content);
      // Random bits are Philox keyed by data: the seed and the place in the data are the whole state.
      const Json rng = {{"generator", "philox4x32-10"}, {"seed", content.seed}, {"epoch", state.epoch}};
      io::write_file(target.path() / "rng_state.json", io::write_json(rng)).value();
    }
    io::write_file(target.path() / kStateFile, io::write_json(state_json(state))).value();
    io::write_file(target.path() / "args.json", content.args_json).value();
    target.commit().value();
    return Unit{};
  });
}

Result<TrainState> read_train_state(const fs::path& directory) {
  return catching([&] {
    io::verify_manifest(directory).value();
    const fs::path file = directory / kStateFile;
    const Json text = io::read_json_file(file).value();
    const io::JsonField json(text, file.string(), "resume from a checkpoint that tern wrote");
    TrainState state;
    state.run_id = json.text("run_id", "");
    if (const auto print = json.find("fingerprint"))
      state.fingerprint = {read_settings(print->at("fixed")), read_settings(print->at("changeable"))};
    state.global_step = json.at("global_step").integer();
    state.max_steps = json.at("max_steps").integer();
    state.skipped_steps = json.integer("skipped_steps", state.skipped_steps);
    if (const auto missed = json.find("missed_steps")) {
      for (const auto& steps : missed->items()) state.missed_steps.push_back(steps.integer());
    }
    if (const auto scale = json.find("loss_scale")) {
      state.loss_scale = {scale->at("scale").number(), scale->at("sound_steps").integer()};
    }
    if (const auto rate = json.find("adaptive_rate")) state.adaptive_rate = read_rate(*rate);
    state.epoch_progress = json.at("epoch").number();
    if (const auto best = json.find("best_metric")) state.best_metric = best->number();
    state.best_checkpoint = json.text("best_model_checkpoint", "");
    state.tokens = json.at("num_input_tokens_seen").integer();
    state.epoch = json.at("next_epoch").integer();
    state.step_in_epoch = json.at("next_step_in_epoch").integer();
    state.planned_tokens = json.integer("planned_tokens", state.planned_tokens);
    state.saves_without_gain = json.integer("saves_without_gain", 0);
    state.window.loss = json.at("log_window").at("loss").number();
    state.window.steps = json.at("log_window").at("steps").integer();
    if (const auto hits = json.at("log_window").find("hits")) {
      state.window.hits = {hits->at("right_tokens").integer(), hits->at("tokens").integer(),
                           hits->at("right_samples").integer(), hits->at("samples").integer()};
    }
    for (const auto& [name, choice] : read_settings(json.at("kernel_choices"))) state.kernel_choices[name] = choice;
    return state;
  });
}

Status read_optimizer(const fs::path& directory, graph::TensorStore& store, const std::vector<std::string>& tensors) {
  return catching([&] {
    const auto file = checkpoint::Safetensors::open_directory(directory, kOptimizerStem).value();
    for (const std::string& name : tensors) {
      const auto* tensor = file.tensor(name);
      const std::string where = cat((directory / "optimizer.safetensors").string(), ": tensor ", name);
      if (tensor == nullptr) {
        throw Failure(
            data_error(where, "its optimizer state", "none", "resume with the flags the checkpoint was made with"));
      }
      if (tensor->dtype->name != dtype_word(store, name) || tensor->bytes.size() != total_bytes(store.at(name).desc)) {
        throw Failure(data_error(where, to_string(store.at(name).desc),
                                 cat(tensor->dtype->name, ", ", tensor->bytes.size(), " bytes"),
                                 "resume with the flags the checkpoint was made with"));
      }
      store.upload(name, tensor->bytes);
    }
    file.intact().value();
    return Unit{};
  });
}

std::string run_of(const fs::path& directory) {
  const auto json = io::read_json_file(directory / kStateFile);
  if (!json.ok() || !json->is_object()) return {};
  const Json* id = json->find("run_id");
  return id != nullptr && id->is_string() ? id->get<std::string>() : std::string();
}

std::vector<std::pair<std::int64_t, fs::path>> list_checkpoints(const fs::path& output_dir) {
  std::vector<std::pair<std::int64_t, fs::path>> out;
  const std::string prefix = "checkpoint-";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !entry.is_directory(error)) continue;
    std::int64_t step = 0;
    const auto [end, failure] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    if (failure == std::errc{} && end == name.data() + name.size()) out.emplace_back(step, entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

fs::path newest_sound_checkpoint(const fs::path& output_dir) {
  auto checkpoints = list_checkpoints(output_dir);
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    const Status sound = io::verify_manifest(it->second);
    if (sound.ok()) return it->second;
    log_warn(cat("checkpoint passed over: ", sound.error().line()));
  }
  return {};
}

}  // namespace tern::train
