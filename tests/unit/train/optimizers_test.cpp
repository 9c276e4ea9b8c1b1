// Every optimizer beside what PyTorch, transformers and bitsandbytes compute in twenty steps
// (script/golden.d/optimizers.py), what its states are to a checkpoint, and its arguments.
#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/safetensors.h"
#include "tiny_run.h"
#include "train/optimizer.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

struct Shape {
  std::string name;
  std::vector<std::int64_t> sizes;
};
const std::vector<Shape> kSmall = {{"wide", {16, 24}}, {"tall", {24, 16}}, {"vector", {33}}};
const std::vector<Shape> kAdapter = {
    {"lora/x.lora_A.weight", {4, 24}}, {"lora/x.lora_B.weight", {24, 4}}, {"model.embed_tokens.weight", {9, 8}}};
const std::vector<Shape> kLarge = {{"large", {64, 70}}, {"vector", {33}}};

OptimizerOptions options_of(std::string_view name, std::string_view arguments = {}) {
  OptimizerOptions options;
  options.kind = optimizer_kind(name).value();
  take_optimizer_arguments(arguments, options).value();
  return options;
}

struct Case {
  const char* golden;
  const char* name;
  const char* arguments;
  double tolerance;
};
// Twenty steps of fp32. The steps of Muon amplify what rounding leaves in small singular values; and a gradient that is
// projected on both sides is diagonal in its first step, where AdamW gives what rounding leaves beside the diagonal
// steps of full size.
constexpr Case kCases[] = {
    {"adamw", "adamw_torch_fused", "", 2e-6},
    {"sgd", "sgd", "", 1e-6},
    {"sgd-momentum", "sgd", "momentum=0.9, dampening=0.2", 1e-6},
    {"sgd-nesterov", "sgd", "momentum=0.8,nesterov=true", 1e-6},
    {"lion", "paged_lion_32bit", "", 1e-6},
    {"adafactor", "adafactor", "", 2e-6},
    {"adafactor-scaled", "adafactor", "scale_parameter=true,beta1=0.9,clip_threshold=0.5,decay_rate=-0.7", 2e-6},
    {"muon", "muon", "", 1e-4},
    {"muon-plain", "muon", "nesterov=false,ns_steps=3,momentum=0.8", 1e-4},
    {"galore-std", "adamw", "std", 2e-6},
    {"galore-reverse_std", "adamw", "reverse_std", 2e-6},
    {"galore-left", "adamw", "left", 2e-6},
    {"galore-right", "adamw", "right", 2e-6},
    {"galore-full", "adamw", "full", 5e-4},
};

// Arguments of GaLore are its type.
OptimizerOptions options_of(const Case& one) {
  const auto type = galore_type(one.arguments);
  if (!type) return options_of(one.name, one.arguments);
  OptimizerOptions options = options_of(one.name);
  options.galore = GaloreOptions{.rank = 3, .update_proj_gap = 7, .scale = 0.7, .type = *type};
  options.galore->parameters = {"wide", "tall"};
  return options;
}

// Some parameters and their optimizer, with the gradients that the peers had.
class Steps {
 public:
  Steps(const std::vector<Shape>& shapes, const OptimizerOptions& options)
      : store_(std::make_shared<graph::TensorStore>(cpu_device())), shapes_(shapes) {
    std::vector<std::string> names;
    for (const auto& [name, sizes] : shapes) {
      store_->create(name, make_desc(TERN_F32, sizes));
      std::vector<float> values(count(name));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(0.5 * std::sin(static_cast<double>(i) + 1.0));
      }
      upload(*store_, name, values);
      names.push_back(name);
    }
    optimizer_ = std::make_unique<Optimizer>(store_, names, options, runtime_);
  }
  void take(int t, double loss_scale = 1) {
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      std::vector<float> gradient(count(shapes_[p].name));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const auto x = static_cast<double>(i);
        gradient[i] = static_cast<float>(0.02 * static_cast<double>(1 + i % 7) *
                                         std::sin(0.37 * x + 1.3 * t + static_cast<double>(p)));
        gradient[i] *= static_cast<float>(loss_scale);
      }
      upload(*store_, gradient_name(shapes_[p].name), gradient);
    }
    result = optimizer_->step(0.01 * (1.0 - t / 40.0), t, loss_scale);
  }
  [[nodiscard]] std::map<std::string, std::vector<float>> parameters() const {
    std::map<std::string, std::vector<float>> out;
    for (const auto& shape : shapes_) out[shape.name] = download(*store_, shape.name);
    return out;
  }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] graph::TensorStore& store() { return *store_; }

  StepResult result;

 private:
  [[nodiscard]] std::size_t count(const std::string& name) const {
    return static_cast<std::size_t>(num_elements(store_->at(name).desc));
  }
  std::shared_ptr<graph::TensorStore> store_;
  std::vector<Shape> shapes_;
  session::Runtime runtime_;
  std::unique_ptr<Optimizer> optimizer_;
};

class Optimizers : public testing::TestWithParam<Case> {};

TEST_P(Optimizers, TakesTheStepsOfItsPeer) {
  const Case& one = GetParam();
  const auto file = checkpoint::Safetensors::open(golden("optimizers/steps.safetensors")).value();
  Steps steps(kSmall, options_of(one));
  const auto before = steps.parameters();
  for (int t = 1; t <= 20; ++t) steps.take(t);
  for (const auto& [name, got] : steps.parameters()) {
    const auto bytes = file.tensor(cat(one.golden, "/", name))->bytes;
    ASSERT_EQ(bytes.size(), got.size() * sizeof(float));
    std::vector<float> want(got.size());
    std::memcpy(want.data(), bytes.data(), bytes.size());
    double moved = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], one.tolerance) << name << " " << i;
      moved = std::max(moved, std::fabs(static_cast<double>(got[i]) - before.at(name)[i]));
    }
    EXPECT_GT(moved, 10 * one.tolerance) << "a tolerance that would take a parameter that never moved";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::ValuesIn(kCases), [](const auto& one) {
  std::string name = one.param.golden;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Where rounding gives one of the two a neighbouring code, a second moment near 0 becomes 0 or doesn't, and the next
// step differs: single elements may be off by a hundredth of what they moved, all of them by far less.
TEST(Adamw8bit, TakesTheStepsOfBitsandbytes) {
  const auto file = checkpoint::Safetensors::open(golden("optimizers/steps.safetensors")).value();
  Steps steps(kLarge, options_of("adamw_8bit"));
  for (int t = 1; t <= 20; ++t) steps.take(t);
  for (const auto& [name, got] : steps.parameters()) {
    std::vector<float> want(got.size());
    std::memcpy(want.data(), file.tensor(cat("adamw_8bit/", name))->bytes.data(), want.size() * sizeof(float));
    const bool in_8_bits = name == "large";
    double squares = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double off = static_cast<double>(got[i]) - want[i];
      EXPECT_LE(std::fabs(off), in_8_bits ? 4e-3 : 2e-6) << name << " " << i;
      squares += off * off;
    }
    EXPECT_LE(std::sqrt(squares / static_cast<double>(got.size())), in_8_bits ? 2e-4 : 2e-6) << name;
  }
  std::set<tern_dtype> dtypes;
  for (const auto& state : steps.optimizer().states()) dtypes.insert(steps.store().at(state).desc.dtype);
  EXPECT_EQ(dtypes, (std::set<tern_dtype>{TERN_F32, TERN_U8})) << "nothing was kept in 8 bits, or too much";
}

// fp16 gradients come multiplied by a power of two, and one that isn't finite changes nothing.
TEST_P(Optimizers, DividesByTheLossScaleAndSkipsWhatOverflows) {
  const Case& one = GetParam();
  Steps plain(kSmall, options_of(one));
  Steps scaled(kSmall, options_of(one));
  for (int t = 1; t <= 3; ++t) {
    plain.take(t);
    scaled.take(t, 1024);
  }
  for (const auto& [name, values] : plain.parameters()) {
    const auto got = scaled.parameters().at(name);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], values[i], one.tolerance) << name;
  }
  const auto parameters = plain.parameters();
  std::map<std::string, std::vector<float>> states;
  for (const auto& state : plain.optimizer().states()) states[state] = download(plain.store(), state);
  plain.take(4, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(plain.result.skipped);
  EXPECT_EQ(plain.parameters(), parameters);
  for (const auto& [name, values] : states) EXPECT_EQ(download(plain.store(), name), values) << name;
}

// Whatever it keeps is in the checkpoint: a run that was cut goes on to the bit.
TEST_P(Optimizers, ResumesToTheBit) {
  const Scratch scratch;
  const auto train = [&](const char* name, const std::filesystem::path& from) {
    std::filesystem::create_directories(scratch.path() / name);
    auto run = std::make_unique<TinyRun>(scratch.path() / name, from);
    run->options.optimizer = options_of(GetParam());
    if (run->options.optimizer.galore) {
      const auto& trainable = run->options.graph.trainable;
      run->options.optimizer.galore->parameters = {trainable.begin(), trainable.end()};
    }
    run->options.learning_rate = 1e-3;
    (void)run->train();
    return run;
  };
  const auto whole = train("whole", {});
  const auto rest = train("rest", whole->output / "checkpoint-4");
  EXPECT_EQ(rest->losses, std::vector<double>(whole->losses.begin() + 4, whole->losses.end()));
  for (const auto& name : whole->options.graph.trainable) {
    EXPECT_EQ(download(*rest->model.store, name), download(*whole->model.store, name)) << name;
  }
}

// Codes of 8 bits and their maxima go through a checkpoint, too.
TEST(Adamw8bit, ResumesToTheBit) {
  struct NoModel : ModelSaver {
    void save(const std::filesystem::path&) const override {}
  };
  const Scratch scratch;
  Steps whole(kLarge, options_of("adamw_8bit"));
  for (int t = 1; t <= 3; ++t) whole.take(t);
  const NoModel model;
  CheckpointContent content;
  content.model = &model;
  content.store = &whole.store();
  content.optimizer_tensors = whole.optimizer().states();
  content.args_json = "{}";
  write_checkpoint(scratch.path() / "checkpoint-3", {}, content).value();
  Steps rest(kLarge, options_of("adamw_8bit"));
  for (const auto& [name, values] : whole.parameters()) upload(rest.store(), name, values);
  read_optimizer(scratch.path() / "checkpoint-3", rest.store(), rest.optimizer().states()).value();
  whole.take(4);
  rest.take(4);
  EXPECT_EQ(rest.parameters(), whole.parameters());
}

// ms-swift's groups of LoRA+.
TEST(LoraPlus, MultipliesTheRateOfB) {
  OptimizerOptions options = options_of("sgd");
  options.adamw.max_grad_norm = 0;
  Steps plain(kAdapter, options);
  options.lora_plus = {4.0, 0.5};
  Steps faster(kAdapter, options);
  const auto before = plain.parameters();
  plain.take(1);
  faster.take(1);
  const std::map<std::string, double> ratios = {
      {kAdapter[0].name, 1.0}, {kAdapter[1].name, 4.0}, {kAdapter[2].name, 0.5}};
  for (const auto& [name, values] : before) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double step = plain.parameters().at(name)[i] - values[i];
      EXPECT_NEAR(faster.parameters().at(name)[i] - values[i], ratios.at(name) * step, 1e-6) << name;
    }
  }
}

TEST(OptimizerOptions, RefuseWhatTheOptimizerDoesNotTake) {
  const auto refusal = [](const char* name, const char* arguments) {
    OptimizerOptions options;
    options.kind = optimizer_kind(name).value();
    const Status taken = take_optimizer_arguments(arguments, options);
    return taken.ok() ? std::string("none") : taken.error().line();
  };
  EXPECT_EQ(refusal("sgd", "momentum=0.9"), "none");
  EXPECT_NE(refusal("adamw", "momentum=0.9").find("--optim adamw does not take"), std::string::npos);
  EXPECT_NE(refusal("sgd", "ns_steps=5").find("give some of: momentum, dampening"), std::string::npos);
  EXPECT_NE(refusal("sgd", "momentum=much").find("not a number"), std::string::npos);
  EXPECT_NE(refusal("sgd", "nesterov=true").find("needs momentum"), std::string::npos);
  EXPECT_NE(refusal("muon", "ns_steps=0").find("from 1 to 99"), std::string::npos);
  EXPECT_FALSE(optimizer_kind("adagrad").has_value());
}

}  // namespace
}  // namespace tern::train
