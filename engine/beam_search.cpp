#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tern::engine {

std::int64_t beam_candidates(std::int64_t num_beams, std::size_t num_end_ids) {
  return num_beams * std::max<std::int64_t>(2, 1 + static_cast<std::int64_t>(num_end_ids));
}

BeamSearch::BeamSearch(BeamOptions options) : options_(std::move(options)), beams_(1) {}

BeamSearch::Beam BeamSearch::extended(const Candidate& candidate) const {
  Beam beam = beams_[candidate.beam];
  beam.tokens.push_back(candidate.token);
  beam.logprob = candidate.logprob;
  return beam;
}

double BeamSearch::score_of(const Beam& beam) const {
  return beam.logprob / std::pow(static_cast<double>(beam.tokens.size()), options_.length_penalty);
}

void BeamSearch::keep_complete(Beam&& beam) {
  beam.score = score_of(beam);
  const auto place = std::ranges::upper_bound(complete_, beam.score, std::greater<>(), &Beam::score);
  complete_.insert(place, std::move(beam));
  if (complete_.size() > static_cast<std::size_t>(options_.num_beams)) complete_.pop_back();
}

void BeamSearch::advance(std::span<const std::vector<TokenLogprob>> next) {
  std::vector<Candidate> candidates;
  for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
    for (const TokenLogprob& token : next[beam]) {
      candidates.push_back({beam, token, beams_[beam].logprob + static_cast<double>(token.logprob)});
    }
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::logprob);
  const auto num_beams = static_cast<std::size_t>(options_.num_beams);
  const auto kept = static_cast<std::size_t>(beam_candidates(options_.num_beams, options_.end_ids.size()));
  if (candidates.size() > kept) candidates.resize(kept);
  std::vector<Beam> go_on;
  for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
    Beam beam = extended(candidates[rank]);
    beam.by_token = std::ranges::find(options_.end_ids, beam.tokens.back().id) != options_.end_ids.end();
    const bool is_whole = beam.by_token || static_cast<std::int64_t>(beam.tokens.size()) >= options_.max_new_tokens ||
                          (options_.is_complete && options_.is_complete(beam.tokens));
    // An end counts where the beam would have stayed among the others.
    if (is_whole && rank < num_beams) keep_complete(std::move(beam));
    if (!is_whole && go_on.size() < num_beams) go_on.push_back(std::move(beam));
  }
  beams_ = std::move(go_on);
  if (beams_.empty()) {
    done_ = true;
  } else if (complete_.size() == num_beams) {
    done_ = score_of(beams_.front()) <= complete_.back().score;
  }
}

}  // namespace tern::engine
