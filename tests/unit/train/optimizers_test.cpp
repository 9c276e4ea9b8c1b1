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
const std::vector<Shape> kWide = {{"large", {64, 1024}}, {"vector", {33}}};
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
    {"q-galore", "adamw", "quantised", 2e-6},
};

OptimizerOptions q_galore(std::int64_t bits, std::int64_t group_size) {
  OptimizerOptions options;
  options.galore = GaloreOptions{.rank = 4, .update_proj_gap = 2, .scale = 0.7};
  options.galore->parameters = {"wide", "tall", "large"};
  options.galore->quantised = QGaloreOptions{.projections = bits > 0,
                                             .bits = bits,
                                             .group_size = group_size,
                                             .cos_threshold = 0.2,
                                             .gamma = 2,
                                             .queue_size = 2};
  return options;
}

// Arguments of GaLore are its type.
OptimizerOptions options_of(const Case& one) {
  if (std::string_view(one.arguments) == "quantised") return q_galore(0, 0);
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

// Numbers of the peer's q-galore cases; of 8192 and more it has 4096.
void expect_peer(const Steps& steps, const std::string& golden_case, double tolerance, double mean) {
  const auto file = checkpoint::Safetensors::open(golden("optimizers/steps.safetensors")).value();
  for (const auto& [name, got] : steps.parameters()) {
    const auto bytes = file.tensor(cat(golden_case, "/", name))->bytes;
    std::vector<float> want(bytes.size() / sizeof(float));
    std::memcpy(want.data(), bytes.data(), bytes.size());
    const std::size_t stride = got.size() < 8192 ? 1 : got.size() / 4096;
    ASSERT_EQ(want.size(), got.size() / stride);
    double squares = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double off = static_cast<double>(got[i * stride]) - want[i];
      EXPECT_LE(std::fabs(off), name == "vector" ? 2e-6 : tolerance) << name << " " << i;
      squares += off * off;
    }
    EXPECT_LE(std::sqrt(squares / static_cast<double>(want.size())), name == "vector" ? 2e-6 : mean) << name;
  }
}

TEST(QGalore, TakesTheStepsOfItsPeer) {
  for (const int bits : {2, 3, 4, 8}) {
    Steps steps(kSmall, q_galore(bits, 32));
    for (int t = 1; t <= 20; ++t) steps.take(t);
    expect_peer(steps, cat("q-galore-", bits, "-bits"), 2e-6, 2e-6);
    // As many numbers as GPTQ's planes need of them, and each matrix's own gap.
    const auto states = steps.optimizer().states();
    const auto kept = std::find(states.begin(), states.end(), "galore_u/wide");
    ASSERT_NE(kept, states.end());
    EXPECT_EQ(steps.store().at(*kept).desc.scheme.bits, bits);
    EXPECT_EQ(download(steps.store(), "galore_gap/wide")[0], 4.0F);
    EXPECT_EQ(download(steps.store(), "galore_gap/tall")[0], 2.0F);
  }
}

// Moments of 4096 numbers and more are kept in 8 bits: as Adamw8bit's test says, single elements may be off.
TEST(QGalore, KeepsLargeMomentsIn8Bits) {
  Steps steps(kWide, q_galore(4, 256));
  for (int t = 1; t <= 20; ++t) steps.take(t);
  expect_peer(steps, "q-galore-large", 4e-3, 2e-4);
  EXPECT_EQ(steps.store().at("galore_m1/large").desc.dtype, TERN_U8);
  EXPECT_EQ(download(steps.store(), "galore_gap/large")[0], 16.0F);
}

TEST(QGalore, WantsGroupsThatGoIntoTheProjection) {
  const auto made = catching([] { return std::make_unique<Steps>(kSmall, q_galore(4, 96)); });
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().line().find("--galore_proj_group_size 96"), std::string::npos) << made.error().line();
  const auto odd = catching([] { return std::make_unique<Steps>(kSmall, q_galore(4, 16)); });
  ASSERT_FALSE(odd.ok());
  EXPECT_NE(odd.error().line().find("is no multiple of 32"), std::string::npos) << odd.error().line();
}

// An optimizer for each parameter: vectors decay, too.
TEST(Galore, OfAnOptimizerEachDecaysVectors) {
  OptimizerOptions options;
  options.galore = GaloreOptions{.rank = 3};
  options.galore->parameters = {"wide", "tall"};
  Steps plain(kSmall, options);
  options.galore->per_parameter = true;
  Steps each(kSmall, options);
  const auto before = plain.parameters();
  plain.take(1);
  each.take(1);
  const double lr = 0.01 * (1.0 - 1 / 40.0);
  for (std::size_t i = 0; i < before.at("vector").size(); ++i) {
    const double decayed = plain.parameters().at("vector")[i] - lr * 0.1 * before.at("vector")[i];
    EXPECT_NEAR(each.parameters().at("vector")[i], decayed, 1e-6) << i;
  }
  EXPECT_EQ(each.parameters().at("wide"), plain.parameters().at("wide"));
}

// All of them share their codes.
TEST(Adamw8bit, TrainsSeveralLargeParameters) {
  const std::vector<Shape> two = {{"first", {64, 70}}, {"second", {70, 64}}};
  Steps steps(two, options_of("adamw_8bit"));
  const auto before = steps.parameters();
  steps.take(1);
  for (const auto& [name, values] : steps.parameters()) EXPECT_NE(values, before.at(name)) << name;
  OptimizerOptions options = q_galore(4, 32);
  options.galore->parameters = {"wide 1", "wide 2"};
  Steps projected({{"wide 1", {64, 1024}}, {"wide 2", {64, 1024}}, {"first", {64, 70}}, {"second", {70, 64}}}, options);
  const auto begun = projected.parameters();
  projected.take(1);
  for (const auto& [name, values] : projected.parameters()) EXPECT_NE(values, begun.at(name)) << name;
}

// Codes of 8 bits and their maxima go through a checkpoint, too.
void expect_to_resume(const std::vector<Shape>& shapes, const OptimizerOptions& options) {
  struct NoModel : ModelSaver {
    void save(const std::filesystem::path&) const override {}
  };
  const Scratch scratch;
  Steps whole(shapes, options);
  for (int t = 1; t <= 3; ++t) whole.take(t);
  const NoModel model;
  CheckpointContent content;
  content.model = &model;
  content.store = &whole.store();
  content.optimizer_tensors = whole.optimizer().states();
  content.args_json = "{}";
  write_checkpoint(scratch.path() / "checkpoint-3", {}, content).value();
  Steps rest(shapes, options);
  for (const auto& [name, values] : whole.parameters()) upload(rest.store(), name, values);
  read_optimizer(scratch.path() / "checkpoint-3", rest.store(), rest.optimizer().states()).value();
  for (int t = 4; t <= 12; ++t) {
    whole.take(t);
    rest.take(t);
    EXPECT_EQ(rest.parameters(), whole.parameters()) << t;
  }
}

TEST(Adamw8bit, ResumesToTheBit) { expect_to_resume(kLarge, options_of("adamw_8bit")); }

// Quantised projections, gaps and cosines, too.
TEST(QGalore, ResumesToTheBit) {
  expect_to_resume(kSmall, q_galore(4, 32));
  expect_to_resume(kWide, q_galore(3, 64));
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
