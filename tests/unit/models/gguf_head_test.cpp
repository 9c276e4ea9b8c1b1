// The head of a GGUF that ranks or classifies.
#include "checkpoint/convert.h"
#include "models/config.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

// llama.cpp's file of a tiny reranker of one label, which the test may change.
Result<ModelConfig> reranker_after(const std::function<void(checkpoint::GgufMetadata&)>& change) {
  const test::TempDir scratch;
  const auto source = checkpoint::CheckpointSource::open(golden("gguf") / "modernbert-reranker.gguf").value();
  checkpoint::ConvertOptions options;
  options.metadata.emplace();
  for (const auto& [key, value] : source.gguf()->metadata()) options.metadata->set(key, value);
  change(*options.metadata);
  (void)checkpoint::convert_checkpoint(source, scratch.path() / "changed.gguf", options).value();
  return read_config(checkpoint::CheckpointSource::open(scratch.path() / "changed.gguf").value(), Heads::any);
}

constexpr const char* kLabels = "modern-bert.classifier.output_labels";
constexpr const char* kPooling = "modern-bert.classifier.pooling_type";

TEST(GgufHead, HasANameForEachLabel) {
  EXPECT_EQ(reranker_after([](auto&) {})->labels, std::vector<std::string>{"relevant"});
  EXPECT_EQ(reranker_after([](auto& metadata) { metadata.remove(kLabels); })->labels,
            std::vector<std::string>{"LABEL_0"});
  const auto two = reranker_after([](auto& metadata) { metadata.set(kLabels, std::vector<std::string>{"a", "b"}); });
  ASSERT_FALSE(two.ok());
  EXPECT_NE(two.error().line().find("output_labels\": expected 1 labels, as cls.output.weight has rows, found 2"),
            std::string::npos)
      << two.error().line();
}

TEST(GgufHead, SaysWhichTokensItReads) {
  const auto pooling = [](const std::function<void(checkpoint::GgufMetadata&)>& change) {
    return reranker_after(change)->own_field<std::string>("classifier_pooling");
  };
  EXPECT_EQ(pooling([](auto& metadata) { metadata.set(kPooling, std::uint32_t{1}); }), "mean");
  EXPECT_EQ(pooling([](auto& metadata) { metadata.set(kPooling, std::uint32_t{2}); }), "cls");
  EXPECT_EQ(pooling([](auto& metadata) { metadata.remove(kPooling); }), "mean") << "as llama.cpp has it";
}

}  // namespace
}  // namespace tern::models
