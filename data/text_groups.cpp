#include "data/text_groups.h"

#include <utility>

#include "base/strings.h"
#include "chat/rerank_prompt.h"

namespace tern::data {
namespace {

constexpr const char* kForm =
    R"(write it as {"messages": [...], "positive_messages": [[...]], "negative_messages": [[...], [...]]})";

std::string place(const Row& row, std::string_view field) {
  return cat(row.file, ":", row.line, ": field \"", field, "\"");
}

Status require_one_piece(const ChatEncoder& texts) {
  if (texts.options().truncation != Truncation::split) return Unit{};
  return usage_error("--truncation_strategy split makes several samples of one text, and texts are compared as a whole",
                     "choose delete, left or right");
}

void require_text_alone(const Row& row) {
  if (row.images.empty() && row.videos.empty() && row.audios.empty()) return;
  const char* field = !row.images.empty() ? "images" : !row.videos.empty() ? "videos" : "audios";
  throw Failure(data_error(place(row, field), "text alone, as the task reads it", "media", "take the column out"));
}

std::string joined(const std::vector<Message>& messages) {
  std::vector<std::string> parts;
  for (const Message& message : messages) parts.push_back(message.content);
  return join(parts, " ");
}

// Adds a text; false where it is too long, and the row goes with it.
bool add(EncodedRow& out, const ChatEncoderOptions& lengths, std::vector<std::int32_t> ids, std::vector<float> label) {
  if (ids.empty() || !shorten(out, ids, lengths.max_length, lengths.truncation)) {
    out.samples.clear();
    return false;
  }
  Sample sample;
  sample.weights.assign(ids.size(), 0.0F);
  sample.ids = std::move(ids);
  sample.columns = {column_bytes(label)};
  out.samples.push_back(std::move(sample));
  return true;
}

void require_positive(const Row& row) {
  if (!row.positives.empty()) return;
  throw Failure(data_error(place(row, "positive_messages"), "a text that belongs to the row's own", "none", kForm));
}

}  // namespace

Result<std::shared_ptr<const EmbeddingEncoder>> EmbeddingEncoder::create(std::shared_ptr<const ChatEncoder> texts,
                                                                         const EmbeddingEncoderOptions& options) {
  if (const Status checked = require_one_piece(*texts); !checked) return checked.error();
  return std::shared_ptr<const EmbeddingEncoder>(new EmbeddingEncoder(std::move(texts), options));
}

Result<EncodedRow> EmbeddingEncoder::encode(const Row& row) const {
  return catching([&] {
    require_text_alone(row);
    require_positive(row);
    if (!options_.takes_negatives && !row.negatives.empty()) {
      throw Failure(data_error(place(row, "negative_messages"), "a pair of texts alone, as the loss compares them",
                               cat(row.negatives.size(), " more"),
                               "write each as positive_messages of a row of its own, with \"label\": 0"));
    }
    if (row.labels && row.labels->size() != 1) {
      throw Failure(data_error(place(row, "label"), "one number, how close the two texts are",
                               cat("a list of ", row.labels->size()), "write one number"));
    }
    EncodedRow out;
    const ChatEncoderOptions& lengths = texts_->options();
    const float label = row.labels ? static_cast<float>(row.labels->front()) : 1.0F;
    bool fits = add(out, lengths, texts_->text_ids(row.text ? *row.text : joined(row.messages)), {label}) &&
                add(out, lengths, texts_->text_ids(joined(row.positives.front())), {});
    for (std::size_t i = 0; fits && i < row.negatives.size(); ++i)
      fits = add(out, lengths, texts_->text_ids(joined(row.negatives[i])), {});
    out.group_size = static_cast<std::uint32_t>(out.samples.size());
    return out;
  });
}

std::string EmbeddingEncoder::fingerprint() const {
  return cat("embedding 1|", options_.takes_negatives, "|", texts_->fingerprint());
}

Result<std::shared_ptr<const RerankerEncoder>> RerankerEncoder::create(std::shared_ptr<const ChatEncoder> texts,
                                                                       const RerankerEncoderOptions& options) {
  if (const Status checked = require_one_piece(*texts); !checked) return checked.error();
  if (const auto tried = chat::rerank_prompt(texts->tokenizer(), {}); !tried) return tried.error();
  return std::shared_ptr<const RerankerEncoder>(new RerankerEncoder(std::move(texts), options));
}

Result<EncodedRow> RerankerEncoder::encode(const Row& row) const {
  return catching([&] {
    require_text_alone(row);
    require_positive(row);
    const bool has_system = !row.messages.empty() && row.messages.front().role == "system";
    const std::size_t first = has_system ? 1 : 0;
    if (row.messages.size() != first + 1 || row.messages.back().role != "user") {
      throw Failure(data_error(place(row, "messages"), "one query of the user, with a system message before it or none",
                               cat(row.messages.size(), " messages"), kForm));
    }
    EncodedRow out;
    const ChatEncoderOptions& lengths = texts_->options();
    const auto add_pair = [&](const std::vector<Message>& document, float label) {
      chat::RerankPair pair{row.messages.back().content, joined(document)};
      if (has_system) pair.instruction = row.messages.front().content;
      return add(out, lengths, chat::rerank_prompt(texts_->tokenizer(), pair).value(), {label});
    };
    const auto most = [](std::size_t count, std::int64_t bound) {
      return std::min(count, static_cast<std::size_t>(bound));
    };
    const std::size_t negatives = most(row.negatives.size(), options_.max_negatives);
    out.group_size = static_cast<std::uint32_t>(1 + negatives);
    for (std::size_t p = 0; p < most(row.positives.size(), options_.max_positives); ++p) {
      if (!add_pair(row.positives[p], 1.0F)) return out;
      for (std::size_t n = 0; n < negatives; ++n) {
        if (!add_pair(row.negatives[n], 0.0F)) return out;
      }
    }
    return out;
  });
}

std::string RerankerEncoder::fingerprint() const {
  return cat("reranker 1|", options_.max_positives, "|", options_.max_negatives, "|", texts_->fingerprint());
}

Settings EmbeddingEncoder::settings() const {
  Settings out = texts_->settings();
  out.emplace_back("task_type", options_.takes_negatives ? "embedding" : "embedding of pairs");
  return out;
}

Settings RerankerEncoder::settings() const {
  Settings out = texts_->settings();
  out.emplace_back("task_type",
                   cat("reranker, ", options_.max_positives, " positives and ", options_.max_negatives, " negatives"));
  return out;
}

}  // namespace tern::data
