// What an mmproj file says, and which are refused.
#include "models/mmproj.h"

#include <functional>

#include "checkpoint/convert.h"
#include "models/parameter_reader.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using SourcePtr = std::shared_ptr<checkpoint::CheckpointSource>;
using Change = std::function<void(checkpoint::GgufMetadata&)>;

SourcePtr mmproj_source(const std::filesystem::path& path) {
  return std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
}
ModelConfig text_of(const std::string& name) { return read_config(*mmproj_source(golden(name))).value(); }

// llama.cpp's file of a tiny model, with other metadata or tensors under other names.
class Mmproj {
 public:
  explicit Mmproj(const std::string& name)
      : source_(mmproj_source(golden("mmproj") / (name + ".gguf"))), text_(text_of(name)) {}

  [[nodiscard]] SourcePtr changed(const Change& change,
                                  const std::function<std::string(std::string)>& rename = {}) const {
    checkpoint::ConvertOptions options;
    options.metadata.emplace();
    for (const auto& [key, value] : source_->gguf()->metadata()) options.metadata->set(key, value);
    if (change) change(*options.metadata);
    for (const checkpoint::SourceTensor& tensor : source_->tensors()) {
      std::int64_t rows = 1;
      for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
      options.tensors.push_back(
          {rename ? rename(tensor.name) : tensor.name, tensor.shape, {tensor.name}, {{0, 0, rows}}, {}});
    }
    const auto path = scratch_.path() / "changed.gguf";
    options.replace = true;
    (void)checkpoint::convert_checkpoint(*source_, path, options).value();
    return mmproj_source(path);
  }
  [[nodiscard]] std::string problem(const Change& change) const {
    const auto vision = read_mmproj(changed(change), text_);
    return vision.ok() ? "" : vision.error().line();
  }
  void expect(const Change& change, const std::string& problem_has) const {
    const std::string found = problem(change);
    EXPECT_NE(found.find(problem_has), std::string::npos) << found;
  }
  [[nodiscard]] VisionConfig config() const { return read_mmproj(source_, text_).value(); }
  [[nodiscard]] const ModelConfig& text() const { return text_; }

 private:
  SourcePtr source_;
  ModelConfig text_;
  test::TempDir scratch_;
};

TEST(Mmproj, SaysWhatTheDirectorySays) {
  const auto fields = [](const char* name) { return Mmproj(name).config().fields; };
  const ModelConfig qwen2 = fields("qwen2-vl-images"), qwen25 = fields("qwen2.5-vl-images"),
                    qwen3 = fields("qwen3-vl-images"), gemma = fields("gemma3-images"),
                    rms = fields("internvl-images-rms"), centred = fields("internvl-images");
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(qwen2.own_field<std::int64_t>("mlp_ratio"), 2);
  EXPECT_EQ(qwen25.own_field<std::int64_t>("window_size"), 16);
  EXPECT_EQ(qwen25.own_field<Layers>("fullatt_block_indexes"), Layers({2}));
  EXPECT_EQ(qwen3.own_field<Layers>("deepstack_visual_indexes"), Layers({1, 2})) << "in the layers' order";
  EXPECT_EQ(gemma.own_field<std::int64_t>("mm_tokens_per_image"), 16);
  EXPECT_DOUBLE_EQ(gemma.rms_norm_eps, 1e-5);
  EXPECT_EQ(rms.own_field<std::string>("norm_type"), "rms_norm");
  EXPECT_TRUE(rms.own_field<bool>("use_qk_norm"));
  EXPECT_FALSE(rms.attention_bias);
  EXPECT_EQ(centred.own_field<std::string>("norm_type"), "layer_norm");
  EXPECT_TRUE(centred.attention_bias);
}

TEST(Mmproj, UsualSizesStandInForAbsentKeys) {
  const auto without = [](const char* name, const char* key) {
    const Mmproj file(name);
    return read_mmproj(file.changed([&](auto& metadata) { metadata.remove(std::string("clip.vision.") + key); }),
                       file.text());
  };
  EXPECT_EQ(without("qwen2.5-vl-images", "window_size")->fields.own_field<std::int64_t>("window_size"), 112);
  EXPECT_EQ(without("qwen3-vl-images", "spatial_merge_size")->fields.own_field<std::int64_t>("spatial_merge_size"), 2);
  EXPECT_EQ(without("gemma3-images", "projector.scale_factor")->fields.own_field<std::int64_t>("mm_tokens_per_image"),
            4);
}

// Files of before May 2025: the layers of a block under each other's names.
TEST(Mmproj, OlderFilesAreUpsideDown) {
  for (const char* name : {"qwen2-vl-images", "qwen2.5-vl-images", "gemma3-images"}) {
    const Mmproj file(name);
    const SourcePtr older = file.changed({}, [](std::string tensor) {
      for (const auto& [from, to] : {std::pair(".ffn_up.", ".ffn_down."), std::pair(".ffn_down.", ".ffn_up.")}) {
        const std::size_t at = tensor.find(from);
        if (at != std::string::npos) return tensor.replace(at, std::string_view(from).size(), to);
      }
      return tensor;
    });
    const auto weights = [](const VisionConfig& vision) {
      ParameterReader reader(*vision.file, mmproj_names(*vision.file));
      std::vector<std::vector<float>> out;
      for (const ParameterSpec& spec : vision.tower->parameters(vision)) out.push_back(reader.read(spec));
      return out;
    };
    EXPECT_EQ(weights(read_mmproj(older, file.text()).value()), weights(file.config())) << name;
  }
}

TEST(Mmproj, RefusesWhatItCannotServe) {
  const auto directory = read_mmproj(mmproj_source(golden("qwen3-vl-images")), text_of("qwen3-vl-images"));
  ASSERT_FALSE(directory.ok());
  EXPECT_NE(directory.error().line().find("expected a GGUF file with a vision tower, found another kind of checkpoint"),
            std::string::npos)
      << directory.error().line();
  const Mmproj file("qwen2.5-vl-images");
  file.expect([](auto& metadata) { metadata.set("general.architecture", "llama"); },
              "key \"general.architecture\": expected \"clip\", as of an mmproj file, found \"llama\"; name the mmproj "
              "file here");
  file.expect([](auto& metadata) { metadata.set("clip.projector_type", "pixtral"); },
              "key \"clip.projector_type\": expected one of qwen2.5vl_merger, qwen2vl_merger, qwen3vl_merger, gemma3, "
              "internvl, found \"pixtral\"; choose another model");
  file.expect([](auto& metadata) { metadata.remove("clip.projector_type"); }, "clip.vision.projector_type");
  file.expect([](auto& metadata) { metadata.set("clip.vision.projection_dim", std::uint32_t{64}); },
              "key \"clip.vision.projection_dim\": expected 32, as the language model has, found 64; take the mmproj "
              "file that lies beside the model");
  file.expect([](auto& metadata) { metadata.set("clip.vision.swiglu_clamp", 7.0F); },
              "key \"clip.vision.swiglu_clamp\": expected only keys that this tower has");
  file.expect([](auto& metadata) { metadata.remove("clip.vision.block_count"); }, "clip.vision.block_count");
  file.expect([](auto& metadata) { metadata.set("clip.vision.attention.head_count", std::uint32_t{5}); },
              "field \"vision_config.num_heads\": expected a divisor of 32 features");
  const Mmproj deep("qwen3-vl-images");
  deep.expect([](auto& metadata) { metadata.set("clip.vision.is_deepstack_layers", std::vector<bool>{true}); },
              "key \"clip.vision.is_deepstack_layers\": expected true or false for each of 4 layers");
  EXPECT_EQ(deep.problem({}), "");
}

TEST(Mmproj, GoesWithALanguageModelOfItsFamily) {
  const test::TempDir scratch;
  const auto joined = [&](const char* name, const char* architecture, std::vector<std::int32_t> sections) {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", architecture);
    if (!sections.empty()) metadata.set(std::string(architecture) + ".rope.dimension_sections", sections);
    const std::vector<float> one(1, 0.5F);
    const auto path = scratch.path() / "text.gguf";
    auto writer = checkpoint::GgufWriter::create(path, metadata, {{"one", checkpoint::GgmlType::f32, {1}}}).value();
    writer.write("one", std::as_bytes(std::span(one))).value();
    writer.finish().value();
    const Mmproj file(name);
    VisionConfig vision = file.config();
    const auto source = mmproj_source(path);
    const auto status = join_language_model(vision, *source->gguf(), file.text());
    if (!status.ok()) return status.error().line();
    return vision.mrope_section.empty() ? std::string("-") : value_text(vision.mrope_section);
  };
  EXPECT_EQ(joined("qwen2.5-vl-images", "qwen2vl", {1, 1, 2, 0}), "[1, 1, 2]");
  EXPECT_EQ(joined("qwen3-vl-images", "qwen3vl", {3, 2, 3}), "[3, 2, 3]");
  EXPECT_EQ(joined("gemma3-images", "gemma3", {}), "-");
  EXPECT_EQ(joined("internvl-images", "qwen2", {}), "-");
  const auto expect = [](const std::string& found, const char* part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(joined("qwen2.5-vl-images", "qwen2vl", {1, 1, 1, 1}), "expected three counts that add up to the 4 pairs");
  expect(joined("qwen2.5-vl-images", "qwen2", {}), "expected \"qwen2vl\", which ");
  expect(joined("internvl-images", "qwen3vl", {}), "a language model without a tower of its own");
}

}  // namespace
}  // namespace tern::models
