#include "models/weight_update.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "graph/pack_again.h"
#include "models/load_into.h"
#include "models/parameter_reader.h"
#include "models/vision.h"

namespace tern::models {
namespace {

// The parameters of one part of the model, and what reads them.
struct Part {
  std::unique_ptr<ParameterReader> reader;
  std::vector<ParameterSpec> specs;  // that the update has
};

// Of the language model; the reader knows which other parts the update has tensors of.
Part language_part(const LoadedModel& model, const checkpoint::CheckpointSource& source) {
  Part part;
  part.reader = std::make_unique<ParameterReader>(source, encoder_prefix(model.config));
  part.specs = part.reader->found_of(parameters_of(model.config), model.config);
  return part;
}

Part vision_part(const LoadedModel& model, const checkpoint::CheckpointSource& source) {
  const VisionConfig& vision = *model.config.vision;
  Part part;
  part.reader = std::make_unique<ParameterReader>(source, [&](const std::string& tensor) {
    const std::string name = vision_part_name(tensor);
    const auto& unread = vision.tower->unread;
    const bool is_read =
        std::none_of(unread.begin(), unread.end(), [&](const auto& each) { return name.starts_with(each); });
    return is_read ? name : std::string();
  });
  part.specs = part.reader->found_of(vision.tower->parameters(vision), model.config);
  return part;
}

std::string form_text(const TensorDesc& desc) {
  return is_quantised(desc) ? std::string(packing_name(desc.scheme.packing))
                            : std::string(dtype_info(static_cast<tern_dtype>(desc.dtype)).torch);
}

// What the numbers would be held in, where they were loaded, must be what is there.
void require_same_form(const LoadedModel& model, const Part& part,
                       const std::shared_ptr<checkpoint::CheckpointSource>& source, const LoadOptions& options) {
  graph::TensorStore counted(model.store->device(), accel::Backing::none);
  load_into(Into::made, part.specs, *part.reader, source, counted, options).value();
  for (const ParameterSpec& spec : part.specs) {
    const TensorDesc& held = model.store->at(spec.name).desc;
    const TensorDesc& came = counted.at(spec.name).desc;
    if (to_string(held) == to_string(came)) continue;
    throw Failure(data_error(cat(source->path().string(), ": weight ", spec.name),
                             cat("numbers that can be held in ", form_text(held), ", as the server's model is"),
                             form_text(came), "serve a model whose weights aren't quantised in its files"));
  }
}

// Whether any number can fail to be held: a rounded one always can.
bool may_refuse_numbers(const LoadOptions& options) { return options.quantise || options.dtype == TERN_F16; }

}  // namespace

Result<WeightUpdate> update_weights(LoadedModel& model, const std::shared_ptr<checkpoint::CheckpointSource>& source,
                                    const LoadOptions& options) {
  return catching([&] {
    const std::string name = source->path().string();
    std::vector<Part> parts;
    parts.push_back(language_part(model, *source));
    WeightUpdate update;
    update.of = static_cast<std::int64_t>(parameters_of(model.config).size());
    if (const auto& others = parts.front().reader->other_parts(); !others.empty()) {
      if (!has_vision_weights(model)) {
        throw Failure(data_error(name, "weights of the language model alone", cat("tensors of ", *others.begin()),
                                 "leave them out: this server has no such part"));
      }
      parts.push_back(vision_part(model, *source));
      update.of += static_cast<std::int64_t>(model.config.vision->tower->parameters(*model.config.vision).size());
    }
    for (const Part& part : parts) update.parameters += static_cast<std::int64_t>(part.specs.size());
    if (update.parameters == 0) {
      throw Failure(data_error(name, "weights of the model", "none", "send at least one under Hugging Face's name"));
    }
    for (const auto& tensor : source->tensors()) update.bytes += tensor.bytes.size();
    LoadOptions quiet = options;
    quiet.progress = nullptr;
    for (const Part& part : parts) require_same_form(model, part, source, quiet);
    const auto load = [&](Into into) {
      for (const Part& part : parts) load_into(into, part.specs, *part.reader, source, *model.store, quiet).value();
    };
    if (may_refuse_numbers(options)) load(Into::nowhere);
    load(Into::there);
    return update;
  });
}

void make_writable(LoadedModel& model) {
  std::vector<ParameterSpec> specs = parameters_of(model.config);
  if (has_vision_weights(model)) {
    for (ParameterSpec& spec : model.config.vision->tower->parameters(*model.config.vision)) {
      specs.push_back(std::move(spec));
    }
  }
  for (const ParameterSpec& spec : specs) {
    if (!graph::is_mapped(*model.store, spec.name)) continue;
    const TensorDesc desc = model.store->at(spec.name).desc;
    std::vector<std::byte> bytes(total_bytes(desc));
    model.store->download(spec.name, bytes);
    model.store->erase(spec.name);
    model.store->create(spec.name, desc);
    model.store->upload(spec.name, bytes);
  }
}

std::vector<std::string> weight_names(const LoadedModel& model) {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<ParameterSpec>& specs) {
    for (const ParameterSpec& spec : specs) {
      for (const std::string& name : spec.hugging_face.tensors) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  };
  add(parameters_of(model.config));
  if (has_vision_weights(model)) add(model.config.vision->tower->parameters(*model.config.vision));
  return names;
}

}  // namespace tern::models
