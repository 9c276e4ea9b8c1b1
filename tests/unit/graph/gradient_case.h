// Graphs of slices whose gradients are checked: what they are built from, and a program of one on a device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/differentiate.h"
#include "graph/program.h"
#include "ops/cast_copy.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {

using graph::Graph;
using ops::Value;

// Constants by name. Their gradients are asked for.
using Sources = std::map<std::string, Value>;

struct GradientCase {
  const char* name;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::function<std::vector<graph::Root>(Graph&, const Sources&)> build;
  std::int64_t count = 0;                                     // of dynamic rows
  std::map<std::string, std::vector<std::int32_t>> integers;  // inputs; the others are waves
};

inline std::vector<float> wave(std::size_t size, double phase) {
  std::vector<float> out(size);
  for (std::size_t i = 0; i < size; ++i)
    out[i] = static_cast<float>(0.5 * std::sin(1.7 * static_cast<double>(i) + phase));
  return out;
}

// The gradient of a root that the host gives: an input of its shape.
inline Value host_made(Graph& graph, const std::string& name, std::vector<std::int64_t> shape) {
  return graph.input(name, make_desc(TERN_F32, shape));
}

// Part of a value, in elements of it.
inline Value slice(Graph& graph, Value value, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                   std::int64_t offset) {
  TensorDesc desc = make_desc(graph.desc(value).dtype, shape);
  std::copy(strides.begin(), strides.end(), desc.strides);
  return graph.view(value, desc, offset);
}
inline Value columns(Graph& graph, Value matrix, std::int64_t first, std::int64_t count) {
  const TensorDesc desc = graph.desc(matrix);
  return slice(graph, matrix, {desc.shape[0], count}, {desc.strides[0], desc.strides[1]}, first * desc.strides[1]);
}
inline Value rows(Graph& graph, Value matrix, std::int64_t first, std::int64_t count) {
  const TensorDesc desc = graph.desc(matrix);
  return slice(graph, matrix, {count, desc.shape[1]}, {desc.strides[0], desc.strides[1]}, first * desc.strides[0]);
}

struct GradientOptions {
  bool recompute = false;
  bool fresh = false;  // gradients are fetched, and not added to what a resource holds
  graph::ProgramOptions program;
};

class GradientProgram {
 public:
  GradientProgram(const GradientCase& made_of, const accel::DevicePtr& device, const GradientOptions& options = {},
                  const accel::DevicePtr& host = nullptr)
      : fresh_(options.fresh),
        count_(made_of.count),
        integers_(made_of.integers),
        store_(std::make_shared<graph::TensorStore>(device)) {
    Graph g;
    Sources sources;
    for (const auto& [name, shape] : made_of.shapes) sources[name] = g.constant(name, make_desc(TERN_F32, shape));
    roots_ = made_of.build(g, sources);
    make_inputs(g);
    std::vector<graph::GradTarget> targets;
    for (const auto& [name, shape] : made_of.shapes) {
      targets.push_back({sources.at(name), {}});
      if (!options.fresh) targets.back().into = g.resource("d" + name, make_desc(TERN_F32, shape));
    }
    const std::vector<graph::RecomputeSegment> segments = {{0, static_cast<std::int32_t>(g.nodes().size()) - 1}};
    fetch_roots(g);
    const std::vector<Value> grads =
        graph::differentiate(g, roots_, targets, options.recompute ? segments : std::vector<graph::RecomputeSegment>{});
    std::size_t t = 0;
    for (const auto& [name, shape] : made_of.shapes) {
      add_source(name, shape);
      if (options.fresh && grads[t].present()) g.output("d" + name, grads[t]);
      reached_[name] = grads[t++].present();
    }
    graph_ = g;
    program_ = graph::Program::build(g, store_, choices_, options.program, host);
  }

  // The sum of the roots, each by its gradient: what the gradients are of.
  double loss() {
    run();
    double sum = 0.0;
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      const std::vector<float> values = output("root" + std::to_string(r));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double weight = given_[r].empty() ? 1.0 : static_cast<double>(given_[r][i]);
        sum += weight * static_cast<double>(values[i]);
      }
    }
    return sum;
  }
  // Of the last run; what the resource held before (0.25) is taken off.
  std::vector<float> gradient(const std::string& name) {
    std::vector<float> out(values_.at(name).size(), 0.0F);
    if (!reached_.at(name)) return out;
    if (fresh_) return output("d" + name);
    store_->download("d" + name, writable_bytes_of(out));
    for (float& x : out) x -= kHeld;
    return out;
  }
  void put(const std::string& name, const std::vector<float>& values) {
    values_.at(name) = values;
    store_->upload(name, bytes_of(values));
  }
  [[nodiscard]] const std::vector<float>& values(const std::string& name) const { return values_.at(name); }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] graph::Program& program() { return *program_; }

 private:
  static constexpr float kHeld = 0.25F;

  void fetch_roots(Graph& g) {
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      // A copy, as a root may be a slice.
      g.output("root" + std::to_string(r), ops::cast_copy(g, roots_[r].value, {.out = TERN_F32}));
      const Value gradient = roots_[r].gradient;
      given_.push_back(gradient.present() ? inputs_.at(g.storage_of(gradient).name) : std::vector<float>());
    }
  }

  void make_inputs(const Graph& g) {
    for (const graph::Storage& storage : g.storages()) {
      if (storage.kind != graph::StorageKind::input || integers_.contains(storage.name)) continue;
      TensorDesc desc = storage.desc;
      if (desc.dynamic_dim == 0) desc.shape[0] = count_;
      inputs_[storage.name] =
          wave(static_cast<std::size_t>(num_elements(desc)), static_cast<double>(storage.name.size()));
    }
  }

  void add_source(const std::string& name, const std::vector<std::int64_t>& shape) {
    const TensorDesc desc = make_desc(TERN_F32, shape);
    store_->create(name, desc);
    if (!fresh_) store_->create("d" + name, desc);
    const auto size = static_cast<std::size_t>(num_elements(desc));
    values_[name].resize(size);
    put(name, wave(size, 0.3 + static_cast<double>(name[0])));
  }

  void run() {
    for (const auto& [name, values] : values_) {
      const std::vector<float> held(values.size(), kHeld);
      if (!fresh_) store_->upload("d" + name, bytes_of(held));
    }
    graph::RunInputs inputs;
    for (const auto& [name, values] : inputs_) inputs.inputs[name] = bytes_of(values);
    for (const auto& [name, values] : integers_) inputs.inputs[name] = bytes_of(values);
    inputs.counts[0] = count_;
    program_->run(inputs);
  }

  std::vector<float> output(const std::string& name) {
    const auto bytes = program_->output(name);
    std::vector<float> out(bytes.size() / sizeof(float));
    std::copy(bytes.begin(), bytes.end(), writable_bytes_of(out).begin());
    return out;
  }

  bool fresh_;
  std::int64_t count_;
  std::map<std::string, std::vector<std::int32_t>> integers_;
  std::shared_ptr<graph::TensorStore> store_;
  accel::ChoiceCache choices_;
  std::vector<graph::Root> roots_;
  std::vector<std::vector<float>> given_;  // per root: the gradient that the host gives
  std::map<std::string, std::vector<float>> inputs_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, bool> reached_;
  Graph graph_;
  std::unique_ptr<graph::Program> program_;
};

// Some elements, the last one among them.
inline std::vector<std::size_t> some_of(std::size_t count) {
  std::vector<std::size_t> out = {count - 1};
  for (std::size_t i = 0; i + 1 < count; i += 1 + count / 37) out.push_back(i);
  return out;
}

inline double largest(const std::vector<float>& values) {
  double out = 1e-2;
  for (float x : values) out = std::max(out, std::fabs(static_cast<double>(x)));
  return out;
}

// Gradients of a program against slopes of its loss, at some elements of each source.
inline void expect_slopes(GradientProgram& program, const GradientCase& made_of) {
  for (const auto& [name, shape] : made_of.shapes) {
    const std::vector<float> at = program.values(name);
    (void)program.loss();
    const std::vector<float> grad = program.gradient(name);
    const double allowed = 4e-3 * largest(grad);
    for (std::size_t i : some_of(at.size())) {
      double side[2] = {};
      constexpr float kStep = 0.01F;
      for (int s = 0; s < 2; ++s) {
        std::vector<float> moved = at;
        moved[i] += s == 0 ? kStep : -kStep;
        program.put(name, moved);
        side[s] = program.loss();
      }
      program.put(name, at);
      // A central difference errs by step^2 / 6 of the third derivative, and by the loss's rounding over the step.
      const double slope = (side[0] - side[1]) / (2.0 * static_cast<double>(kStep));
      ASSERT_NEAR(grad[i], slope, allowed) << name << "[" << i << "]";
    }
  }
}

}  // namespace tern::test
