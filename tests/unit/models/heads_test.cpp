// Classes of transformers with other heads than a language model's: which are found, and what their files say.
#include "models/registry.h"

#include "scratch_model.h"

namespace tern::models {
namespace {

// A model of tests/data/golden, whose config.json may be changed.
class HeadConfig {
 public:
  explicit HeadConfig(const char* model) {
    for (const char* part : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(golden(model) / part, scratch_.path() / part);
  }
  [[nodiscard]] Result<ModelConfig> with(const std::function<void(io::Json&)>& change) const {
    io::Json json = test::parsed_json(std::ifstream(scratch_.path() / "config.json"));
    change(json);
    std::ofstream(scratch_.path() / "config.json") << json.dump();
    return read_config(checkpoint::CheckpointSource::open(scratch_.path()).value(), Heads::any);
  }

 private:
  test::TempDir scratch_;
};

TEST(Heads, AClassSaysItsArchitectureAndItsHead) {
  EXPECT_EQ(find_class("Qwen3ForCausalLM").head, ModelHead::language);
  EXPECT_EQ(find_class("Qwen3Model").head, ModelHead::none);
  EXPECT_EQ(find_class("LlamaForSequenceClassification").head, ModelHead::classification);
  EXPECT_EQ(find_class("LlamaForSequenceClassification").architecture, find_architecture("LlamaForCausalLM"));
  for (const char* name : {"AlbertModel", "AlbertForSequenceClassification", "Qwen3ForTokenClassification", "Model", ""})
    EXPECT_EQ(find_class(name).architecture, nullptr) << name;
}

TEST(Heads, ParametersAreThoseOfTheHead) {
  const auto has = [](const ModelConfig& config, const std::string& name) {
    const auto specs = parameters_of(config);
    return std::any_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  };
  const ScratchModel untied("qwen3-untied");
  ModelConfig config = config_of(untied);
  EXPECT_TRUE(has(config, "lm_head.weight") && !has(config, kScoreWeight));
  config.head = ModelHead::none;
  EXPECT_FALSE(has(config, "lm_head.weight") || has(config, kScoreWeight));
  config.head = ModelHead::classification;
  config.labels = {"a", "b"};
  EXPECT_TRUE(!has(config, "lm_head.weight") && has(config, kScoreWeight));
  EXPECT_EQ(parameters_of(config).back().shape, (std::vector<std::int64_t>{2, config.hidden_size}));
}

TEST(Heads, LabelsAreTwoWhereNothingNamesThem) {
  const HeadConfig model("qwen3-seq-cls");
  EXPECT_EQ(model.with([](io::Json&) {}).value().labels.size(), 3U);
  EXPECT_EQ(model.with([](io::Json& json) { json.erase("id2label"); }).value().labels,
            (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  const auto gap = model.with([](io::Json& json) { json["id2label"] = {{"0", "a"}, {"2", "c"}}; });
  ASSERT_FALSE(gap.ok());
  EXPECT_NE(gap.error().line().find("id2label"), std::string::npos) << gap.error().line();
}

// Of one label, sentence-transformers' files say what is put upon its logit.
TEST(Heads, ARerankersActivationIsTheSigmoidOrNone) {
  const HeadConfig model("qwen3-seq-cls");
  const auto with = [&](const char* key, const io::Json& value) {
    const auto config = model.with([&](io::Json& json) {
      json["id2label"] = {{"0", "LABEL_0"}};
      json[key] = value;
    });
    model.with([&](io::Json& json) { json.erase(key); }).value();
    if (!config.ok()) return config.error().line();
    return std::string(config->label_sigmoid ? "sigmoid" : "logit");
  };
  const std::string older = "sbert_ce_default_activation_function";
  const io::Json identity = "torch.nn.modules.linear.Identity";
  const io::Json sigmoid = "torch.nn.modules.activation.Sigmoid";
  EXPECT_EQ(with("sentence_transformers", {{"activation_fn", sigmoid}, {"version", "5.1.0"}}), "sigmoid");
  EXPECT_EQ(with(older.c_str(), sigmoid), "sigmoid");
  EXPECT_EQ(with("sentence_transformers", {{"activation_fn", identity}}), "logit");
  EXPECT_EQ(with(older.c_str(), identity), "logit");
  EXPECT_EQ(with("problem_type", "regression"), "sigmoid");
  const io::Json tanh = "torch.nn.modules.activation.Tanh";
  for (const std::string& problem :
       {with("sentence_transformers", {{"activation_fn", tanh}}), with(older.c_str(), tanh)}) {
    EXPECT_NE(problem.find(R"(expected "torch.nn.modules.activation.Sigmoid" or "torch.nn.modules.linear.Identity")"),
              std::string::npos)
        << problem;
  }
}

}  // namespace
}  // namespace tern::models
