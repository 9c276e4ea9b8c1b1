// If these fail, a beam search gives an answer that is not the one it should find.
#include "engine/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/philox.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "tiny.h"

namespace tern::engine {
namespace {

// The log-probabilities of five tokens behind others, out of nothing but these.
std::vector<TokenLogprob> next_of(std::span<const TokenLogprob> before) {
  std::uint64_t key = 7;
  for (const TokenLogprob& token : before) key = mix_key(key, static_cast<std::uint64_t>(token.id) + 1);
  std::vector<TokenLogprob> out;
  double sum = 0;
  for (std::int32_t id = 0; id < 5; ++id) {
    const float weight = 0.05F + uniform24(philox(key, {static_cast<std::uint32_t>(id), 0, 0, 0})[0]);
    out.push_back({id, weight});
    sum += static_cast<double>(weight);
  }
  for (TokenLogprob& token : out)
    token.logprob = static_cast<float>(std::log(static_cast<double>(token.logprob) / sum));
  return out;
}

struct Scored {
  double score = 0;
  std::vector<std::int32_t> ids;
};

void search_all(std::vector<TokenLogprob>& tokens, double logprob, std::size_t most, double length_penalty,
                std::vector<Scored>& found) {
  const bool ended = !tokens.empty() && tokens.back().id == 0;
  if (ended || tokens.size() == most) {
    Scored& one = found.emplace_back();
    one.score = logprob / std::pow(static_cast<double>(tokens.size()), length_penalty);
    for (const TokenLogprob& token : tokens) one.ids.push_back(token.id);
    return;
  }
  for (const TokenLogprob& token : next_of(tokens)) {
    tokens.push_back(token);
    search_all(tokens, logprob + static_cast<double>(token.logprob), most, length_penalty, found);
    tokens.pop_back();
  }
}

// With a beam for everything that there is, nothing better is overlooked, and the next best ones follow.
TEST(BeamSearch, FindsTheBestOfAllWithBeamsEnough) {
  std::set<std::size_t> lengths;
  for (const double length_penalty : {1.0, 0.0, 3.0, -1.0}) {
    SCOPED_TRACE(length_penalty);
    BeamSearch search(
        {.num_beams = 625, .max_new_tokens = 4, .length_penalty = length_penalty, .end_ids = {0}, .is_complete = {}});
    while (!search.done()) {
      std::vector<std::vector<TokenLogprob>> next;
      for (const auto& beam : search.beams()) next.push_back(next_of(beam.tokens));
      search.advance(next);
    }
    std::vector<Scored> all;
    std::vector<TokenLogprob> tokens;
    search_all(tokens, 0, 4, length_penalty, all);
    std::ranges::stable_sort(all, std::greater<>(), &Scored::score);
    ASSERT_GE(search.ranked().size(), 5U);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      const BeamSearch::Beam& found = search.ranked()[rank];
      EXPECT_NEAR(found.score, all[rank].score, 1e-12);
      ASSERT_EQ(found.tokens.size(), all[rank].ids.size());
      for (std::size_t i = 0; i < found.tokens.size(); ++i) EXPECT_EQ(found.tokens[i].id, all[rank].ids[i]);
      EXPECT_EQ(found.by_token, all[rank].ids.back() == 0);
    }
    lengths.insert(search.best().tokens.size());
  }
  EXPECT_GT(lengths.size(), 1U) << "the penalty changes nothing";
}

TEST(BeamSearch, EndsWhereATextIsComplete) {
  BeamSearch search({.num_beams = 2, .max_new_tokens = 50, .end_ids = {}, .is_complete = [](auto tokens) {
                       return tokens.size() == 3;
                     }});
  int steps = 0;
  for (; !search.done(); ++steps) {
    std::vector<std::vector<TokenLogprob>> next;
    for (const auto& beam : search.beams()) next.push_back(next_of(beam.tokens));
    search.advance(next);
  }
  EXPECT_EQ(steps, 3);
  EXPECT_FALSE(search.best().by_token);
}

std::vector<std::int32_t> ids_of(const io::Json& list) {
  std::vector<std::int32_t> ids;
  for (const io::Json& id : list) ids.push_back(id.get<std::int32_t>());
  return ids;
}

// Tokens and scores of transformers' own (script/golden.d/beams.py).
TEST(BeamSearch, FindsWhatTransformersFinds) {
  const auto file = std::filesystem::path(TERN_TEST_DATA) / "golden" / "beams.json";
  const io::Json golden = io::parse_json(io::read_text_file(file).value(), file.string()).value();
  std::map<std::string, models::LoadedModel> models;
  int ended = 0;
  for (const io::Json& row : golden["rows"]) {
    const std::string name = row["model"].text();
    if (!models.contains(name)) models.emplace(name, tiny_model(name));
    BeamOptions options;
    options.num_beams = row["num_beams"].get<std::int64_t>();
    options.max_new_tokens = row["max_new_tokens"].get<std::int64_t>();
    options.end_ids = ids_of(row["end_ids"]);
    EngineOptions engine_options = small_engine();
    engine_options.enable_prefix_caching = true;
    engine_options.top_logprobs = beam_candidates(options.num_beams, options.end_ids.size());
    session::Runtime runtime;
    LLMEngine engine(models.at(name), any_tokenizer(), engine_options, runtime);
    BeamSearch search(options);
    while (!search.done()) {
      std::map<SequenceId, std::size_t> places;
      std::vector<std::vector<TokenLogprob>> next(search.beams().size());
      for (std::size_t beam = 0; beam < next.size(); ++beam) {
        auto ids = ids_of(row["prompt"]);
        for (const TokenLogprob& token : search.beams()[beam].tokens) ids.push_back(token.id);
        SamplingParams one = greedy(1);
        one.top_logprobs = engine_options.top_logprobs;
        places[engine.add_request(std::move(ids), one).value()] = beam;
      }
      while (!engine.idle()) {
        for (const RequestOutput& output : engine.step()) next[places.at(output.id)] = output.top;
      }
      search.advance(next);
    }
    std::vector<std::int32_t> tokens;
    for (const TokenLogprob& token : search.best().tokens) tokens.push_back(token.id);
    EXPECT_EQ(tokens, ids_of(row["tokens"])) << row.dump();
    EXPECT_NEAR(search.best().score, row["score"].get<double>(), 1e-4) << row.dump();
    ended += search.best().by_token ? 1 : 0;
  }
  EXPECT_GT(ended, 3);
}

}  // namespace
}  // namespace tern::engine
