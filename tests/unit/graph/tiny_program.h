// One program of the small model on one device, and what its runs leave.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.h"
#include "tests/unit/graph/tiny_model.h"

namespace tern::test {

// Of the simulated device (TERN_SIM).
inline constexpr const char* kPersonalities[] = {"discrete", "ascend", "graph", "embedded"};

// What a run leaves, by name: outputs and gradients.
using Results = std::map<std::string, std::vector<float>>;

// Reads the batch in place. What the model has no input of is passed over.
inline graph::RunInputs inputs_of(const Batch& batch) {
  graph::RunInputs inputs;
  inputs.inputs = {{"ids", bytes_of(batch.ids)},
                   {"positions", bytes_of(batch.positions)},
                   {"cu_seqlens", bytes_of(batch.cu_seqlens)},
                   {"targets", bytes_of(batch.targets)},
                   {"weights", bytes_of(batch.weights)},
                   {"keys", bytes_of(batch.keys)}};
  inputs.counts[0] = static_cast<std::int64_t>(batch.ids.size());
  inputs.counts[1] = static_cast<std::int64_t>(batch.cu_seqlens.size());
  return inputs;
}

// Writes what the next launch reads.
inline void give_inputs(graph::Program& program, const graph::RunInputs& inputs) {
  for (const auto& [name, bytes] : inputs.inputs) {
    const std::int32_t id = program.input_id(name);
    if (id >= 0) std::copy(bytes.begin(), bytes.end(), program.input(id).begin());
  }
}

inline std::vector<float> output_of(const graph::Program& program, const std::string& name) {
  const auto bytes = program.output(name);
  std::vector<float> out(bytes.size() / 4);
  std::copy(bytes.begin(), bytes.end(), writable_bytes_of(out).begin());
  return out;
}

// A program of the model on a device, with a store of its own.
class TinyProgram {
 public:
  TinyProgram(const accel::DevicePtr& device, const TinyOptions& options, graph::ProgramOptions program = {},
              const accel::DevicePtr& host = nullptr, const std::function<void(TinyModel&)>& change = {})
      : options_(options), model_(options), store_(std::make_shared<graph::TensorStore>(device)) {
    if (change) change(model_);
    for (const auto& [name, desc] : model_.weights) {
      store_->create(name, desc);
      store_->upload(name, bytes_of(weight_data(name, desc)));
    }
    for (const std::string& name : model_.trained) {
      if (!options.train) break;
      store_->create("grad." + name, model_.weights.at(name));
      store_->fill_zero("grad." + name);
    }
    program_ = graph::Program::build(model_.graph, store_, choices_, program, host);
  }

  void run(const Batch& batch) { run_without("", batch); }
  // With one input missing, which is a logic error.
  void run_without(const std::string& input, const Batch& batch) {
    graph::RunInputs inputs = inputs_of(batch);
    inputs.inputs.erase(input);
    program_->run(inputs);
  }

  [[nodiscard]] std::vector<float> output(const std::string& name) const { return output_of(*program_, name); }
  [[nodiscard]] std::vector<float> stored(const std::string& name) const {
    std::vector<float> out(static_cast<std::size_t>(num_elements(store_->at(name).desc)));
    store_->download(name, writable_bytes_of(out));
    return out;
  }
  [[nodiscard]] Results results() const {
    Results out{{"loss", output("loss")}, {"hidden", output("hidden")}};
    for (const std::string& name : model_.trained) {
      if (options_.train) out["grad." + name] = stored("grad." + name);
    }
    return out;
  }

  [[nodiscard]] graph::Program& program() { return *program_; }
  [[nodiscard]] graph::TensorStore& store() { return *store_; }
  [[nodiscard]] const std::shared_ptr<graph::TensorStore>& shared_store() const { return store_; }
  [[nodiscard]] const TinyModel& model() const { return model_; }

 private:
  TinyOptions options_;
  TinyModel model_;
  std::shared_ptr<graph::TensorStore> store_;
  accel::ChoiceCache choices_;
  std::unique_ptr<graph::Program> program_;
};

// The largest |a - b| over the larger of the tensor's largest magnitude and 1e-3; infinite where sizes differ or a
// value is no number.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double size = 1e-3;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return HUGE_VAL;
    size = std::max(size, std::fabs(static_cast<double>(a[i])));
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return worst / size;
}

inline double distance(const Results& a, const Results& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double worst = 0.0;
  for (const auto& [name, values] : a)
    worst = std::max(worst, b.contains(name) ? distance(values, b.at(name)) : HUGE_VAL);
  return worst;
}

}  // namespace tern::test
