#include "train/optimizer.h"

#include <cmath>
#include <limits>

#include "tiny.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> value, m, v;
};

// AdamW in fp64 by the paper's formula.
class Reference {
 public:
  explicit Reference(const AdamwOptions& options) : options_(options) {}
  double step(std::vector<Parameter>& parameters, const std::vector<std::vector<double>>& gradients, double lr, int t) {
    double sum = 0;
    for (const auto& gradient : gradients) {
      for (const double g : gradient) sum += g * g;
    }
    const double norm = std::sqrt(sum);
    const double clip = options_.max_grad_norm > 0 ? std::min(1.0, options_.max_grad_norm / (norm + 1e-6)) : 1.0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      Parameter& x = parameters[p];
      const double decay = x.shape.size() >= 2 ? options_.weight_decay : 0.0;
      for (std::size_t i = 0; i < x.value.size(); ++i) {
        const double g = gradients[p][i] * clip;
        x.m[i] = options_.beta1 * x.m[i] + (1 - options_.beta1) * g;
        x.v[i] = options_.beta2 * x.v[i] + (1 - options_.beta2) * g * g;
        const double m = x.m[i] / (1 - std::pow(options_.beta1, t));
        const double v = x.v[i] / (1 - std::pow(options_.beta2, t));
        x.value[i] -= lr * (decay * x.value[i] + m / (std::sqrt(v) + options_.epsilon));
      }
    }
    return norm;
  }

 private:
  AdamwOptions options_;
};

class OptimizerTest : public testing::Test {
 protected:
  OptimizerTest() : store_(std::make_shared<graph::TensorStore>(cpu_device())) {
    add("matrix", {7, 5});
    add("norm", {11});
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    store_->create(name, make_desc(TERN_F32, shape));
    const auto count = static_cast<std::size_t>(num_elements(store_->at(name).desc));
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(std::sin(static_cast<double>(i) + 1.0));
    upload(*store_, name, values);
    parameters_.push_back(
        {name, shape, {values.begin(), values.end()}, std::vector<double>(count), std::vector<double>(count)});
  }
  [[nodiscard]] Optimizer make(const AdamwOptions& adamw) {
    OptimizerOptions options;
    options.adamw = adamw;
    return {store_, {"matrix", "norm"}, options, runtime_};
  }
  std::vector<std::vector<double>> set_gradients(double size, int t) {
    std::vector<std::vector<double>> out;
    for (const auto& parameter : parameters_) {
      std::vector<float> values(parameter.value.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(size * std::cos(static_cast<double>(i * 3 + static_cast<std::size_t>(t))));
      upload(*store_, gradient_name(parameter.name), values);
      out.emplace_back(values.begin(), values.end());
    }
    return out;
  }
  void expect_equal(double tolerance) {
    for (const auto& parameter : parameters_) {
      const auto got = download(*store_, parameter.name);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], parameter.value[i], tolerance) << parameter.name << " " << i;
    }
  }

  std::shared_ptr<graph::TensorStore> store_;
  std::vector<Parameter> parameters_;
  session::Runtime runtime_;
};

TEST_F(OptimizerTest, TakesTheStepsOfAdamW) {
  for (const double size : {0.01, 10.0}) {  // below and above the clipping norm
    const AdamwOptions options;
    auto optimizer = make(options);
    Reference reference(options);
    for (auto& parameter : parameters_) {  // moments begin at zero
      parameter.m.assign(parameter.m.size(), 0.0);
      parameter.v.assign(parameter.v.size(), 0.0);
    }
    for (int t = 1; t <= 5; ++t) {
      const auto gradients = set_gradients(size, t);
      const double norm = reference.step(parameters_, gradients, 0.01 * t, t);
      const StepResult result = optimizer.step(0.01 * t, t);
      EXPECT_NEAR(result.grad_norm, norm, 1e-5 * norm);
      EXPECT_FALSE(result.skipped);
      expect_equal(2e-6);
    }
    for (const char* name : {"matrix", "norm"}) {
      for (const auto& stored : {gradient_name(name), Optimizer::first_moment(name), Optimizer::second_moment(name)})
        store_->erase(stored);
    }
  }
}

TEST_F(OptimizerTest, ClearsGradientsAfterAStep) {
  auto optimizer = make({});
  (void)set_gradients(1.0, 1);
  (void)optimizer.step(0.1, 1);
  for (const float g : download(*store_, gradient_name("matrix"))) EXPECT_EQ(g, 0.0F);
}

TEST_F(OptimizerTest, LeavesEverythingAsItWasWhereTheNormIsNotFinite) {
  auto optimizer = make({});
  (void)set_gradients(1.0, 1);
  (void)optimizer.step(0.1, 1);
  const auto before = download(*store_, "matrix");
  const auto moment = download(*store_, Optimizer::first_moment("matrix"));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    (void)set_gradients(1.0, 2);
    auto gradient = download(*store_, gradient_name("norm"));
    gradient.back() = bad;
    upload(*store_, gradient_name("norm"), gradient);
    EXPECT_TRUE(optimizer.step(0.1, 2).skipped);
    EXPECT_EQ(download(*store_, "matrix"), before);
    EXPECT_EQ(download(*store_, Optimizer::first_moment("matrix")), moment);
    EXPECT_FALSE(std::isfinite(download(*store_, gradient_name("norm")).back())) << "whoever looks for its cause";
    optimizer.clear_gradients();
    EXPECT_EQ(download(*store_, gradient_name("norm")).back(), 0.0F);
  }
}

TEST_F(OptimizerTest, ClipsNothingWhereTheLargestNormIsZero) {
  AdamwOptions options;
  options.max_grad_norm = 0;
  auto optimizer = make(options);
  Reference reference(options);
  const auto gradients = set_gradients(1000.0, 1);
  (void)reference.step(parameters_, gradients, 0.1, 1);
  (void)optimizer.step(0.1, 1);
  const auto moment = download(*store_, Optimizer::first_moment("matrix"));
  for (std::size_t i = 0; i < moment.size(); ++i) EXPECT_NEAR(moment[i], parameters_[0].m[i], 1e-3);
}

}  // namespace
}  // namespace tern::train
