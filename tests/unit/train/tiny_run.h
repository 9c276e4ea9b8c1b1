// A tiny model with an adapter of its own, trained into a folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tiny.h"
#include "train/lora_init.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::train {

// A model with an adapter of its own, trained into `output`.
struct TinyRun {
  explicit TinyRun(std::filesystem::path output_dir, const std::filesystem::path& resume_from = {})
      : output(std::move(output_dir)) {
    models::LoadOptions load;
    load.is_master = [](const std::string&) { return true; };  // a test may write on the weights
    model = tiny_model(load);
    if (resume_from.empty()) {
      adapter.config.rank = 4;
      adapter.config.dropout = 0.05;
      const auto modules = models::select_modules(model.config, {"all-linear"}).value();
      adapter = models::create_adapter(model, "lora", adapter.config, modules);
      init_adapter(*model.store, adapter, 42);
    } else {
      adapter = models::load_adapter(model, "lora", resume_from).value();
    }
    options.output_dir = output;
    options.resume_from = resume_from;
    options.max_steps = 6;
    options.logging_steps = 2;
    options.save_steps = 2;
    options.learning_rate = 1e-2;
    batches.per_device_batch_size = 2;
    batches.accumulation = 2;
    options.graph.adapters = adapter.layers;
    options.graph.dropout = true;
    options.graph.lora_dropout = 0.05F;
    for (const auto& [module, layer] : adapter.layers) {
      options.graph.trainable.push_back(layer.lora_a);
      options.graph.trainable.push_back(layer.lora_b);
    }
  }
  TrainResult train() {
    const auto saver = adapter_saver(model, adapter);
    return train(*saver);
  }
  TrainResult train(const ModelSaver& saver) {
    hooks.on_step = [this](const StepProgress& at) { losses.push_back(at.loss); };
    trainer.reset();
    steps = std::make_unique<data::SetSteps>(data::SetSteps::create(dataset, batches).value());
    trainer = std::make_unique<Trainer>(model, saver, *steps, validation, options, runtime, hooks);
    return trainer->run();
  }
  // Everything that training changes.
  [[nodiscard]] std::map<std::string, std::vector<float>> state() const {
    std::map<std::string, std::vector<float>> out;
    for (const auto& name : options.graph.trainable) {
      for (const auto& stored : {name, Optimizer::first_moment(name), Optimizer::second_moment(name)})
        out[stored] = download(*model.store, stored);
    }
    return out;
  }

  std::filesystem::path output;
  models::LoadedModel model;
  models::LoadedAdapter adapter;
  data::EncodedDataset dataset = tiny_samples();
  data::EncodedDataset validation;
  data::BatchOptions batches;
  TrainerOptions options;
  TrainerHooks hooks;
  session::Runtime runtime;
  std::vector<double> losses;
  std::unique_ptr<data::SetSteps> steps;
  std::unique_ptr<Trainer> trainer;  // of the newest run: the moments are its
};

}  // namespace tern::train
