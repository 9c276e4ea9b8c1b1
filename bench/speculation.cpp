// What guessed tokens make of the speed of answers, to less than a hundredth: two engines over one model answer the
// same prompt in turns of some tokens, one with guesses and one without, so that what slows the machine down slows
// both.
//
//   speculation MODEL DRAFT THREADS TOKENS ROUNDS TEXT..   a line of JSON a TEXT, a prompt: {"speed": the share of the
//   speed without guesses (above 1: faster), "noise": the standard error of it, "checked", "right": guesses,
//   "tokens_per_second": with them}. DRAFT is the model that guesses, or "-": prompt lookup does. The model goes on
//   with each prompt greedily, or, where it begins with "?", with tokens that are drawn at temperature 1.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/llm.h"
#include "session/beside.h"

namespace {

using namespace tern;

constexpr std::int64_t kTurn = 8;  // tokens

// One engine, one answer after the other.
class Side {
 public:
  Side(session::Session& session, std::int64_t guesses, std::shared_ptr<session::Session> draft) {
    engine::LLMOptions options;
    options.engine.speculation = {guesses, 4, 2};
    options.draft = std::move(draft);
    options.max_model_len = 2048;
    llm_ = engine::LLM::open(session, options).value();
  }
  void begin(const std::string& prompt, const engine::SamplingParams& params) {
    (void)llm_->engine().add_request(llm_->encode(prompt).value(), params).value();
    (void)llm_->engine().step();  // the prompt
    tokens_ = 1;
    seconds_ = 0;
  }
  // Until `tokens` of the answer have come.
  void run_to(std::int64_t tokens) {
    const auto start = std::chrono::steady_clock::now();
    while (tokens_ < tokens) tokens_ += static_cast<std::int64_t>(llm_->engine().step().size());
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void finish() {
    while (!llm_->engine().idle()) (void)llm_->engine().step();
  }
  [[nodiscard]] double seconds_a_token() const { return seconds_ / static_cast<double>(tokens_ - 1); }
  [[nodiscard]] engine::Guesses guesses() { return llm_->engine().guesses(); }

 private:
  std::unique_ptr<engine::LLM> llm_;
  std::int64_t tokens_ = 0;
  double seconds_ = 0;
};

int run(const std::vector<std::string>& words) {
  session::SessionOptions options;
  options.model = words[1];
  options.runtime.num_threads = std::atoi(words[3].c_str());
  const std::int64_t tokens = std::atoll(words[4].c_str());
  const int rounds = std::atoi(words[5].c_str());
  const auto session = session::open_session(options).value();
  std::shared_ptr<session::Session> draft;
  if (options.model = words[2]; options.model != "-") draft = session::open_beside(*session, options).value();
  Side plain(*session, 0, nullptr);
  Side guessing(*session, 5, draft);
  for (std::size_t i = 6; i < words.size(); ++i) {
    const bool draws = words[i].starts_with("?");
    const std::string prompt = words[i].substr(draws ? 1 : 0);
    const engine::Guesses before = guessing.guesses();
    std::vector<double> ratios;
    double seconds = 0;
    for (int round = -1; round < rounds; ++round) {  // the first makes the programs
      engine::SamplingParams params;
      params.max_new_tokens = tokens + 32;
      params.ignore_eos = true;
      params.temperature = draws ? 1.0F : 0.0F;
      params.seed = static_cast<std::uint64_t>(round + 2);
      plain.begin(prompt, params);
      guessing.begin(prompt, params);
      for (std::int64_t at = 1 + kTurn, turn = 0; at <= tokens; at += kTurn, ++turn) {
        Side& first = (turn + round) % 2 == 0 ? plain : guessing;
        Side& second = &first == &plain ? guessing : plain;
        first.run_to(at);
        second.run_to(at);
      }
      if (round >= 0) ratios.push_back(plain.seconds_a_token() / guessing.seconds_a_token());
      if (round >= 0) seconds += guessing.seconds_a_token();
      plain.finish();
      guessing.finish();
    }
    const auto count = static_cast<double>(ratios.size());
    const double mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / count;
    double squares = 0;
    for (const double ratio : ratios) squares += (ratio - mean) * (ratio - mean);
    const engine::Guesses after = guessing.guesses();
    std::printf("{\"speed\": %.4f, \"noise\": %.4f, \"checked\": %lld, \"right\": %lld, \"tokens_per_second\": %.1f}\n",
                mean, std::sqrt(squares / std::max(1.0, count - 1) / count),
                static_cast<long long>(after.checked - before.checked),
                static_cast<long long>(after.right - before.right), count / seconds);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fputs("usage: speculation MODEL DRAFT THREADS TOKENS ROUNDS TEXT...\n", stderr);
    return 2;
  }
  const auto done = tern::catching([&] { return run({argv, argv + argc}); });
  if (done.ok()) return done.value();
  std::fprintf(stderr, "%s\n", done.error().line().c_str());
  return 1;
}
