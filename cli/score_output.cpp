#include "cli/score_output.h"

#include <cerrno>
#include <iostream>

#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

using Json = io::Json;

void put_means(const engine::TextScore& score, Json& row) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  row["loss"] = number(score.loss());
  row["perplexity"] = number(score.perplexity());
  if (score.comparison.empty()) return;
  row["kl_divergence"] = number(score.kl_divergence());
  row["same_top"] = number(score.same_top());
}

}  // namespace

ScoreOutput::ScoreOutput(const std::optional<std::string>& path, const tokenizer::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), place_(path.value_or("standard output")) {
  if (!path) return;
  file_.open(*path);
  if (!file_) throw Failure(io::write_error(*path, errno));
}

void ScoreOutput::require(bool written) const {
  if (!written) throw Failure(failed_error(cat("the scores could not be written to ", place_), "check the space left"));
}

std::ostream& ScoreOutput::out() { return file_.is_open() ? file_ : std::cout; }

void ScoreOutput::write(const engine::TextScore& score) {
  Json row;
  row["tokens"] = Json::array();
  for (std::size_t i = 0; i < score.ids.size(); ++i) {
    Json token = {{"id", score.ids[i]},
                  {"text", tokenizer_.decode(std::span(&score.ids[i], 1), false)},
                  {"logprob", i == 0 ? Json(nullptr) : Json(score.logprobs[i - 1])}};
    if (i > 0 && !score.comparison.empty()) token["kl"] = score.comparison[i - 1].kl;
    row["tokens"].push_back(std::move(token));
  }
  put_means(score, row);
  require(!(out() << row.dump() << '\n' << std::flush).fail());
  ++texts_;
  all_.logprobs.insert(all_.logprobs.end(), score.logprobs.begin(), score.logprobs.end());
  all_.comparison.insert(all_.comparison.end(), score.comparison.begin(), score.comparison.end());
}

void ScoreOutput::finish(bool json) {
  out().flush();
  if (json) {
    Json row = {{"texts", texts_}, {"scored_tokens", all_.logprobs.size()}};
    put_means(all_, row);
    std::cout << row.dump() << '\n';
  }
  require(!out().fail() && !std::cout.flush().fail());
  if (all_.logprobs.empty()) return;
  std::string line = cat("texts: ", texts_, ", scored tokens: ", all_.logprobs.size(), ", loss ",
                         fixed(*all_.loss(), 4), ", perplexity ", fixed(*all_.perplexity(), 4));
  if (!all_.comparison.empty()) {
    line += cat("; from the reference: KL divergence ", *all_.kl_divergence(),
                " a token, the same likeliest token for ", fixed(100 * *all_.same_top(), 2), "% of them");
  }
  log_info(line);
}

}  // namespace tern::cli
