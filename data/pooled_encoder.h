// The encoder of tasks that look at a text as a whole: its tokens, and what is to be found of it.
//
// Texts are the ones that `tern infer` makes of the same row. No token is supervised: the column kLabel has what a loss
// compares the pooled outputs with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "data/chat_encoder.h"

namespace tern::data {

// Per sample, f32 of any number: the number of a class, those of several, numbers to come close to.
inline constexpr const char* kLabel = "label";

enum class ProblemType { single_label_classification, multi_label_classification, regression };
[[nodiscard]] Result<ProblemType> parse_problem_type(std::string_view value);  // as transformers names them
[[nodiscard]] std::string_view problem_type_name(ProblemType type);

struct ClassificationEncoderOptions {
  std::int64_t num_labels = 2;
  ProblemType problem_type = ProblemType::single_label_classification;
};

class ClassificationEncoder final : public RowEncoder {
 public:
  // Errors (usage): a truncation that makes several samples of one row.
  [[nodiscard]] static Result<std::shared_ptr<const ClassificationEncoder>> create(
      std::shared_ptr<const ChatEncoder> texts, const ClassificationEncoderOptions& options);

  // Errors (data): a row without a label, or with one that the model has no place for.
  [[nodiscard]] Result<EncodedRow> encode(const Row& row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] Settings settings() const override;
  [[nodiscard]] std::span<const ColumnSpec> columns() const override { return {&column_, 1}; }

 private:
  ClassificationEncoder(std::shared_ptr<const ChatEncoder> texts, const ClassificationEncoderOptions& options)
      : texts_(std::move(texts)), options_(options) {}
  [[nodiscard]] std::vector<float> label_of(const Row& row) const;

  std::shared_ptr<const ChatEncoder> texts_;
  ClassificationEncoderOptions options_;
  ColumnSpec column_ = {kLabel, Per::sample, TERN_F32, ColumnSpec::kAnyNumber, 0};
};

}  // namespace tern::data
