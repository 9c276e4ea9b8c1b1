// tern score: the log-probability of every token of each text.
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/dataset_hub.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "data/dataset.h"
#include "engine/scorer.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Text {
  std::string place;  // file and line
  std::vector<std::int32_t> ids;
};

// Throws Failure, with the text's place, where it cannot be scored.
std::vector<double> score(engine::Scorer& scorer, const Text& text) {
  try {
    return scorer.score(text.ids);
  } catch (const Failure& failure) {
    Error error = failure.error();
    error.where = cat(text.place, ": ", error.where);
    throw Failure(std::move(error));
  }
}

Json score_row(engine::Scorer& scorer, const tokenizer::Tokenizer& tokenizer, const Text& text) {
  const std::vector<std::int32_t>& ids = text.ids;
  const std::vector<double> logprobs = score(scorer, text);
  Json tokens = Json::array();
  double sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::array<tokenizer::TokenId, 1> one = {ids[i]};
    tokens.push_back({{"id", ids[i]},
                      {"text", tokenizer.decode(one, false)},
                      {"logprob", i == 0 ? Json(nullptr) : Json(logprobs[i - 1])}});
    if (i > 0) sum += logprobs[i - 1];
  }
  const double loss = logprobs.empty() ? 0.0 : -sum / static_cast<double>(logprobs.size());
  return {{"tokens", std::move(tokens)},
          {"loss", logprobs.empty() ? Json(nullptr) : Json(loss)},
          {"perplexity", logprobs.empty() ? Json(nullptr) : Json(std::exp(loss))}};
}

// The rows' texts as ids, read before the model is.
std::vector<Text> read_texts(const Arguments& arguments, const tokenizer::Tokenizer& tokenizer) {
  const auto& datasets = arguments.list("dataset");
  if (datasets.empty()) {
    throw Failure(usage_error("--dataset", "a file of rows {\"text\"}", "none", "give --dataset FILE"));
  }
  std::vector<Text> texts;
  data::LoadOptions options;
  options.strict = true;
  options.hub = dataset_hub(arguments);
  for (const auto& spec : datasets) {
    (void)data::for_each_row(spec, options, [&](data::Row&& row) {
      if (!row.text) {
        throw Failure(data_error(cat(row.file, ":", row.line), "a row {\"text\"}", "a row of another format",
                                 "write the text to score as {\"text\": ...}"));
      }
      texts.push_back({cat(row.file, ":", row.line), tokenizer.encode(*row.text, true)});
      return true;
    }).value();
  }
  return texts;
}

}  // namespace

int run_score(const Arguments& arguments) {
  require_one_adapter(arguments);
  auto session = open_session(arguments, arguments.string("model"));
  const auto texts = read_texts(arguments, session->text->tokenizer);
  std::size_t longest = 2;
  for (const auto& text : texts) longest = std::max(longest, text.ids.size());
  const auto limit = session->config.max_position_embeddings;
  if (static_cast<std::int64_t>(longest) > limit) {
    throw Failure(
        data_error("--dataset", cat("texts of at most ", limit, " tokens"), cat(longest, " tokens"), "split the text"));
  }
  models::LoadOptions load;
  load.max_positions = static_cast<std::int64_t>(longest);
  load_weights(*session, arguments, load);
  engine::ScorerOptions options;
  options.max_tokens = static_cast<std::int64_t>(longest);
  options.compute = session->compute;
  for (const auto& adapter : arguments.list("adapters")) {
    options.adapters = models::load_adapter(session->model, "lora", adapter).value().layers;
  }
  engine::Scorer scorer(session->model, options, *session->runtime);
  std::ofstream file;
  if (const auto path = arguments.maybe_string("result_path")) {
    file.open(*path);
    if (!file) throw Failure(io::write_error(*path, errno));
  }
  std::ostream& out = file.is_open() ? file : std::cout;
  install_interrupt_handler();
  for (const auto& text : texts) {
    if (interrupted()) throw Failure(interrupted_error("some rows were not scored", "run it again"));
    out << score_row(scorer, session->text->tokenizer, text).dump(-1, ' ', false, Json::error_handler_t::replace)
        << '\n';
  }
  if (!out.flush())
    throw Failure(failed_error("score", "results that can be written", "a write that failed", "check the disk"));
  session->runtime->choices.save();
  return 0;
}

}  // namespace tern::cli
