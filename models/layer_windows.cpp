#include "models/layer_windows.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kInterval = "no_rope_layer_interval";

std::string is_layer_types(const ModelConfig& config, const FieldValue& value) {
  const auto& types = std::get<Texts>(value);
  const bool known = std::all_of(types.begin(), types.end(),
                                 [](const auto& type) { return type == kSlidingType || type == kFullType; });
  const bool fits = types.empty() || types.size() == static_cast<std::size_t>(config.num_hidden_layers);
  return known && fits ? ""
                       : cat("full_attention or sliding_attention for each of ", config.num_hidden_layers, " layers");
}

std::string is_without_windows(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& types = std::get<Texts>(value);
  const bool full = std::all_of(types.begin(), types.end(), [](const auto& type) { return type == kFullType; });
  return full ? "" : "full_attention for each layer";
}

using Flags = std::vector<std::int64_t>;

FieldValue all_but_each(const ModelConfig& config, std::int64_t interval) {
  Flags turned;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    turned.push_back((layer + 1) % interval != 0 ? 1 : 0);
  return turned;
}
FieldValue all_but_each_interval(const ModelConfig& config) {
  return all_but_each(config, config.own_field<std::int64_t>(kInterval));
}
FieldValue all_but_each_fourth(const ModelConfig& config) { return all_but_each(config, 4); }

std::string is_flag_of_each_layer(const ModelConfig& config, const FieldValue& value) {
  const auto& flags = std::get<Flags>(value);
  const bool are_flags =
      std::all_of(flags.begin(), flags.end(), [](std::int64_t flag) { return flag == 0 || flag == 1; });
  return are_flags && static_cast<std::int64_t>(flags.size()) >= config.num_hidden_layers
             ? ""
             : cat("0 or 1 for each of ", config.num_hidden_layers, " layers");
}

}  // namespace

std::vector<Field> turned_layer_fields() {
  const FieldValue size = std::int64_t{0};
  return {{kInterval, kImplied, size, otherwise(FieldValue(std::int64_t{4})), is_size},
          {kTurnedLayers, "", FieldValue(Flags()),
           Default{all_but_each_interval, all_but_each_interval, all_but_each_fourth, false}, is_flag_of_each_layer}};
}

Field full_layer_types_field() {
  const FieldValue none = Texts();
  return {"layer_types", kImplied, none, otherwise(none, none), is_without_windows};
}

std::vector<Field> layer_window_fields() {
  const FieldValue none = Texts();
  return {
      {"use_sliding_window", "", FieldValue(false), otherwise(FieldValue(false))},
      {"sliding_window", kImplied, &ModelConfig::sliding_window,
       otherwise(FieldValue(std::int64_t{4096}), FieldValue(std::int64_t{0})), is_count},
      {"max_window_layers", kImplied, FieldValue(std::int64_t{0}), otherwise(FieldValue(std::int64_t{28})), is_count},
      {"layer_types", kImplied, none, otherwise(none, none), is_layer_types},
  };
}

std::vector<std::int64_t> layer_windows(const ModelConfig& config) {
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  std::vector<std::int64_t> windows(layers, 0);
  if (!config.own_field<bool>("use_sliding_window")) return windows;
  const auto& types = config.own_field<Texts>("layer_types");
  const auto first = static_cast<std::size_t>(config.own_field<std::int64_t>("max_window_layers"));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const bool slides = types.empty() ? layer >= first : types[layer] == kSlidingType;
    if (slides) windows[layer] = config.sliding_window;
  }
  return windows;
}

Field layer_types_field(Default otherwise) {
  return {"layer_types", "", FieldValue(Texts()), std::move(otherwise), is_layer_types};
}

std::vector<std::string> periodic_layer_types(const ModelConfig& config, std::int64_t period) {
  Texts types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.emplace_back((layer + 1) % period == 0 ? kFullType : kSlidingType);
  return types;
}

std::vector<std::int64_t> windows_by_type(const ModelConfig& config) {
  std::vector<std::int64_t> windows;
  for (const std::string& type : config.own_field<Texts>("layer_types"))
    windows.push_back(type == kSlidingType ? config.sliding_window : 0);
  return windows;
}

}  // namespace tern::models
