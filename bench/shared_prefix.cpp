// How much sooner the second of two requests with a shared prefix gets its first token.
//
//   shared_prefix MODEL THREADS TOKENS ROUNDS   a line of JSON: {"cold": seconds to the first token of a prompt of
//   TOKENS tokens and 16 more, "warm": of another whose first TOKENS are the same, "ratio": warm / cold, "cached":
//   tokens that the second found}; medians of ROUNDS rounds, each with a prefix of its own.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/llm.h"
#include "session/session.h"

namespace {

using namespace tern;

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

int run(const std::vector<std::string>& words) {
  session::SessionOptions options;
  options.model = words[1];
  options.runtime.num_threads = std::atoi(words[2].c_str());
  const std::int64_t tokens = std::atoll(words[3].c_str());
  const int rounds = std::atoi(words[4].c_str());
  const auto session = session::open_session(options).value();
  engine::LLMOptions llm_options;
  llm_options.engine.enable_prefix_caching = true;
  llm_options.engine.max_num_seqs = 4;
  llm_options.max_model_len = tokens + 64;
  const auto llm = engine::LLM::open(*session, llm_options).value();
  engine::LLMEngine& engine = llm->engine();
  std::int64_t cached = 0;
  const auto first_token = [&](std::int32_t prefix, std::int32_t rest) {
    std::vector<std::int32_t> prompt;
    for (std::int64_t i = 0; i < tokens; ++i)
      prompt.push_back(static_cast<std::int32_t>(100 + (7 * i + prefix) % 3000));
    for (std::int32_t i = 0; i < 16; ++i) prompt.push_back(4000 + 16 * rest + i);
    engine::SamplingParams params;
    params.max_new_tokens = 1;
    const auto start = std::chrono::steady_clock::now();
    (void)engine.add_request(std::move(prompt), params).value();
    while (!engine.idle()) {
      for (const engine::RequestOutput& output : engine.step()) cached = output.cached_tokens;
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> cold, warm;
  for (int round = -1; round < rounds; ++round) {  // the first makes the programs
    const double without = first_token(31 * (round + 1), 0);
    const double with = first_token(31 * (round + 1), 1);
    if (round < 0) continue;
    cold.push_back(without);
    warm.push_back(with);
  }
  std::printf("{\"cold\": %.5f, \"warm\": %.5f, \"ratio\": %.4f, \"cached\": %lld}\n", median(cold), median(warm),
              median(warm) / median(cold), static_cast<long long>(cached));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: shared_prefix MODEL THREADS TOKENS ROUNDS\n", stderr);
    return 2;
  }
  const auto done = tern::catching([&] { return run({argv, argv + argc}); });
  if (done.ok()) return done.value();
  std::fprintf(stderr, "%s\n", done.error().line().c_str());
  return 1;
}
