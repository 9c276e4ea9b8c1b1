// The encoders of tasks that compare texts: a row is a group of them (data/column.h).
//
// Texts are the ones that `tern infer` makes of the same messages. No token is supervised.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "data/chat_encoder.h"
#include "data/pooled_encoder.h"

namespace tern::data {

// An embedding's: what `messages` say, the first of `positive_messages`, and `negative_messages`, each its messages'
// contents with a space between. The anchor carries the row's label, 1 where it has none.
struct EmbeddingEncoderOptions {
  bool takes_negatives = true;  // false: losses of pairs
};

class EmbeddingEncoder final : public RowEncoder {
 public:
  // Errors (usage): a truncation that makes several samples of one text.
  [[nodiscard]] static Result<std::shared_ptr<const EmbeddingEncoder>> create(std::shared_ptr<const ChatEncoder> texts,
                                                                              const EmbeddingEncoderOptions& options);

  // Errors (data): a row without a positive, or with negatives that the loss has no use for.
  [[nodiscard]] Result<EncodedRow> encode(const Row& row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] Settings settings() const override;
  [[nodiscard]] std::span<const ColumnSpec> columns() const override { return {&column_, 1}; }

 private:
  EmbeddingEncoder(std::shared_ptr<const ChatEncoder> texts, const EmbeddingEncoderOptions& options)
      : texts_(std::move(texts)), options_(options) {}

  std::shared_ptr<const ChatEncoder> texts_;
  EmbeddingEncoderOptions options_;
  ColumnSpec column_ = {kLabel, Per::sample, TERN_F32, ColumnSpec::kAnyNumber, 0};
};

// A reranker's: the query that `messages` end with, beside a document of `positive_messages`, then beside those of
// `negative_messages`; a group for each positive. A system message says what makes a document relevant.
struct RerankerEncoderOptions {
  std::int64_t max_positives = 1;  // of a row: the first ones
  std::int64_t max_negatives = 7;
};

class RerankerEncoder final : public RowEncoder {
 public:
  // Errors (usage): a truncation that makes several samples of one text; (data): a tokenizer without the tokens of the
  // pair's words.
  [[nodiscard]] static Result<std::shared_ptr<const RerankerEncoder>> create(std::shared_ptr<const ChatEncoder> texts,
                                                                             const RerankerEncoderOptions& options);

  // Errors (data): a row without a query or a positive document.
  [[nodiscard]] Result<EncodedRow> encode(const Row& row) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] Settings settings() const override;
  [[nodiscard]] std::span<const ColumnSpec> columns() const override { return {&column_, 1}; }

 private:
  RerankerEncoder(std::shared_ptr<const ChatEncoder> texts, const RerankerEncoderOptions& options)
      : texts_(std::move(texts)), options_(options) {}

  std::shared_ptr<const ChatEncoder> texts_;
  RerankerEncoderOptions options_;
  ColumnSpec column_ = {kLabel, Per::sample, TERN_F32, ColumnSpec::kAnyNumber, 0};
};

}  // namespace tern::data
