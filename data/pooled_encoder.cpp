#include "data/pooled_encoder.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace tern::data {
namespace {

constexpr std::array<std::pair<std::string_view, ProblemType>, 3> kProblemTypes = {
    {{"single_label_classification", ProblemType::single_label_classification},
     {"multi_label_classification", ProblemType::multi_label_classification},
     {"regression", ProblemType::regression}}};

std::string numbers_text(const std::vector<double>& numbers) {
  std::vector<std::string> words;
  for (const double number : numbers) words.push_back(cat(number));
  return words.size() == 1 ? words.front() : cat("[", join(words, ", "), "]");
}

}  // namespace

Result<ProblemType> parse_problem_type(std::string_view value) {
  for (const auto& [name, type] : kProblemTypes) {
    if (name == value) return type;
  }
  return usage_error(cat("--problem_type ", value, " is unknown"),
                     "choose single_label_classification, multi_label_classification or regression");
}

std::string_view problem_type_name(ProblemType type) {
  for (const auto& [name, known] : kProblemTypes) {
    if (known == type) return name;
  }
  return {};
}

Result<std::shared_ptr<const ClassificationEncoder>> ClassificationEncoder::create(
    std::shared_ptr<const ChatEncoder> texts, const ClassificationEncoderOptions& options) {
  if (texts->options().truncation == Truncation::split) {
    return usage_error("--truncation_strategy split makes several samples of one row, and the row has one label",
                       "choose delete, left or right");
  }
  return std::shared_ptr<const ClassificationEncoder>(new ClassificationEncoder(std::move(texts), options));
}

std::vector<float> ClassificationEncoder::label_of(const Row& row) const {
  const std::string where = cat(row.file, ":", row.line, ": field \"label\"");
  const bool regression = options_.problem_type == ProblemType::regression;
  const std::string wanted =
      regression ? options_.num_labels == 1 ? std::string("a number") : cat(options_.num_labels, " numbers")
      : options_.problem_type == ProblemType::single_label_classification
          ? cat("the number of a label, 0 to ", options_.num_labels - 1)
          : cat("a list of numbers of labels, each 0 to ", options_.num_labels - 1);
  if (!row.labels) {
    throw Failure(data_error(where, wanted, "none", "add it; --columns names another column as the label"));
  }
  const std::vector<double>& given = *row.labels;
  const auto fits = [&] {
    if (regression) return static_cast<std::int64_t>(given.size()) == options_.num_labels;
    if (options_.problem_type == ProblemType::single_label_classification && given.size() != 1) return false;
    for (const double number : given) {
      const bool is_label = number >= 0 && number == std::floor(number);
      if (!is_label || number >= static_cast<double>(options_.num_labels)) return false;
    }
    return true;
  };
  if (!fits()) {
    throw Failure(data_error(where, wanted, numbers_text(given),
                             "correct the row, or give the --num_labels and --problem_type that the data has"));
  }
  return {given.begin(), given.end()};
}

Result<EncodedRow> ClassificationEncoder::encode(const Row& row) const {
  return catching([&] {
    EncodedRow out;
    Sample sample;
    const std::vector<float> label = label_of(row);
    if (!row.images.empty() || !row.videos.empty() || !row.audios.empty()) {
      (void)texts_->encode(row).value();  // refuses media, in its own words
    }
    sample.ids = row.text ? texts_->text_ids(*row.text) : texts_->ask(row, row.messages).value();
    const ChatEncoderOptions& lengths = texts_->options();
    if (sample.ids.empty() || !shorten(out, sample.ids, lengths.max_length, lengths.truncation)) return out;
    sample.weights.assign(sample.ids.size(), 0.0F);
    sample.columns = {column_bytes(label)};
    out.samples.push_back(std::move(sample));
    return out;
  });
}

std::string ClassificationEncoder::fingerprint() const {
  return cat("classification 1|", options_.num_labels, "|", problem_type_name(options_.problem_type), "|",
             texts_->fingerprint());
}

Settings ClassificationEncoder::settings() const {
  Settings out = texts_->settings();
  out.emplace_back("task_type",
                   cat("seq_cls, ", options_.num_labels, " labels, ", problem_type_name(options_.problem_type)));
  return out;
}

}  // namespace tern::data
