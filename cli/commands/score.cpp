// tern score: the log-probability of every token of each text.
#include <cerrno>
#include <fstream>
#include <iostream>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/text_rows.h"
#include "engine/llm.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

using Json = io::Json;

Json json_of(const engine::TextScore& score, const tokenizer::Tokenizer& tokenizer) {
  Json tokens = Json::array();
  for (std::size_t i = 0; i < score.ids.size(); ++i) {
    tokens.push_back({{"id", score.ids[i]},
                      {"text", tokenizer.decode(std::span(&score.ids[i], 1), false)},
                      {"logprob", i == 0 ? Json(nullptr) : Json(score.logprobs[i - 1])}});
  }
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"tokens", std::move(tokens)}, {"loss", number(score.loss())}, {"perplexity", number(score.perplexity())}};
}

}  // namespace

int run_score(const Arguments& arguments) {
  require_one_adapter(arguments);
  auto session = open_session(arguments, arguments.string("model"));
  const tokenizer::Tokenizer& tokenizer = session->text->tokenizer;
  // Read before the weights are: bad data is told at once.
  std::vector<engine::TokenIds> texts;
  std::vector<std::string> places;
  std::size_t longest = 2;
  for_each_text(arguments, [&](const std::string& text, const std::string& place) {
    texts.push_back(tokenizer.encode(text, true));
    places.push_back(place);
    longest = std::max(longest, texts.back().size());
    return true;
  });
  engine::LLMOptions options;
  options.max_model_len = static_cast<std::int64_t>(longest);
  options.batch_invariant = arguments.boolean("batch_invariant");
  if (const auto limit = session->model.config.max_position_embeddings; options.max_model_len > limit) {
    throw Failure(
        data_error("--dataset", cat("texts of at most ", limit, " tokens"), cat(longest, " tokens"), "split the text"));
  }
  for (const auto& adapter : arguments.list("adapters")) options.adapter = adapter;
  models::LoadOptions load;
  load.max_positions = options.max_model_len;
  load_weights(*session, arguments, load);
  const auto llm = engine::LLM::open(*session, options).value();
  std::ofstream file;
  if (const auto path = arguments.maybe_string("result_path")) {
    file.open(*path);
    if (!file) throw Failure(io::write_error(*path, errno));
  }
  std::ostream& out = file.is_open() ? file : std::cout;
  install_interrupt_handler();
  engine::ScoreCallbacks callbacks;
  callbacks.stopped = interrupted;
  callbacks.on_score = [&](std::size_t index, const engine::TextScore& score) {
    if (score.error) throw Failure(score.error->inside(places[index]));
    out << json_of(score, tokenizer).dump() << '\n';
  };
  if (llm->score(texts, callbacks) < texts.size()) {
    throw Failure(interrupted_error("scoring was stopped before all rows had a score", "run it again"));
  }
  if (!out.flush()) throw Failure(failed_error("the scores could not be written", "check the space left"));
  return 0;
}

}  // namespace tern::cli
