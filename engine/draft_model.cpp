#include "engine/draft_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "engine/cache_dtype.h"
#include "engine/weight_bytes.h"
#include "session/model_dtype.h"

namespace tern::engine {

// Its tokens are the sequence's, with guesses behind them; the first `computed` of them are in the draft's cache.
struct DraftShadow {
  Sequence sequence;
  std::int64_t known = 0;   // tokens of the sequence itself
  std::int64_t paid = 0;    // of them, whose computing was paid for
  std::int64_t marked = 0;  // its first blocks, whose hashes stand in DraftModel::full_
  bool is_foreign = false;  // it has a token that the draft model lacks
};

namespace {

// Of computing one token of a prompt, in drawn tokens: with SmolLM2-135M in Q4_1 on two cores a prompt came at 2,300
// tokens/s and an answer at 66.
constexpr double kPromptToken = 0.03;

CacheOptions cache_like(const CacheEngine& cache, tern_dtype dtype, const DraftModelOptions& options) {
  CacheOptions out;
  out.dtype = dtype;
  out.max_num_seqs = options.max_num_seqs;
  out.like = &cache;
  return out;
}

// As the request asks, without what looks at more than the tokens so far.
SamplingParams draft_params(const SamplingParams& asked) {
  SamplingParams params = asked;
  params.mask = nullptr;
  params.min_tokens = 0;
  params.top_logprobs = 0;
  params.processed_logprobs = false;
  params.prompt_logprobs.reset();
  return params;
}

}  // namespace

// The same ids are the same pieces: rows of an embedding beyond the tokenizer's are nobody's.
Status check_draft_model(const models::ModelConfig& draft, const tokenizer::Tokenizer& draft_tokenizer,
                         const tokenizer::Tokenizer& tokenizer) {
  const models::Architecture* architecture = models::find_architecture(draft.architecture);
  constexpr const char* kMend = "name a smaller model of the same family";
  if (architecture == nullptr || architecture->cache_specs == nullptr) {
    return usage_error(cat("the draft model is ", draft.architecture, ", which goes on with no text"), kMend);
  }
  for (const nn::CacheSpec& spec : architecture->cache_specs(draft)) {
    if (spec.states.empty()) continue;
    return usage_error(cat("the draft model is ", draft.architecture, ", whose layer ", spec.module,
                           " keeps a state that wrong guesses would change"),
                       kMend);
  }
  if (const int expected = tokenizer.vocab_size(), got = draft_tokenizer.vocab_size(); expected != got) {
    return data_error("the draft model", cat("the model's ", expected, " tokens"), cat(got, " tokens"), kMend);
  }
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view expected = tokenizer.id_to_piece(id);
    const std::string_view got = draft_tokenizer.id_to_piece(id);
    if (expected == got) continue;
    return data_error("the draft model", cat("the model's token ", id, ", \"", expected, "\""), cat("\"", got, "\""),
                      kMend);
  }
  return Unit{};
}

tern_dtype draft_cache_dtype(const models::LoadedModel& draft, std::optional<tern_dtype> wanted) {
  const accel::Device& device = *draft.store->device();
  if (wanted && check_cache_dtype(device, draft.config, *wanted)) return *wanted;
  return session::storable_dtype(device.info(), draft.dtype);
}

DraftModel::DraftModel(models::LoadedModel& draft, const models::LoadedModel& model, const CacheEngine& cache,
                       tern_dtype cache_dtype, Scheduler& scheduler, const DraftModelOptions& options,
                       session::Runtime& runtime)
    : scheduler_(scheduler),
      options_(options),
      draft_vocab_(draft.config.vocab_size),
      vocab_(model.config.vocab_size),
      max_positions_(draft.config.max_position_embeddings),
      cache_(draft.store, draft.architecture->cache_specs(draft.config), cache_like(cache, cache_dtype, options)),
      trace_(runtime.trace()),
      full_(static_cast<std::size_t>(cache_.num_blocks()) + 1) {
  const double bytes = weight_bytes(draft);
  if (options_.step_cost == 0) options_.step_cost = bytes / weight_bytes(model);
  RunnerOptions runner;
  runner.max_num_seqs = options.max_num_seqs;
  runner.max_num_batched_tokens = options.max_num_batched_tokens;
  runner.numerics = options.numerics;
  runner_ = std::make_unique<ModelRunner>(draft, cache_, runner, runtime);
  const auto tokens = cache_.num_blocks() * cache_.block_size();
  log_info(cat("draft model: its weights take ", human_bytes(static_cast<std::uint64_t>(bytes)),
               ", its keys and values of ", tokens, " tokens ", human_bytes(cache_.bytes()),
               "; a guess is reckoned at ", fixed(options_.step_cost, 2), " of a token"));
  followers_.reserve(static_cast<std::size_t>(options.max_num_seqs));
  batch_.reserve(static_cast<std::size_t>(options.max_num_seqs));
  drawing_.reserve(static_cast<std::size_t>(options.max_num_seqs));
}

DraftCost DraftModel::cost(const Sequence& sequence, std::int64_t /*running*/) const {
  DraftCost cost;
  cost.each = options_.step_cost;
  if (sequence.shadow != nullptr) {
    const DraftShadow& shadow = *sequence.shadow;
    cost.before = prompt_cost(sequence.length() - 1 - std::max(shadow.paid, shadow.sequence.computed));
  } else {
    cost.before = -first_guesses(earnings_.left() - prompt_cost(sequence.length()));  // which it's granted
  }
  return cost;
}

double DraftModel::prompt_cost(std::int64_t tokens) const {
  return static_cast<double>(std::max<std::int64_t>(tokens, 0)) * kPromptToken * options_.step_cost;
}

// A shadow for a sequence whose prompt it may compute: at what guesses have earned so far, or, where a long one costs
// more than may be saved up, when all of that is there.
bool DraftModel::enters(Sequence& sequence) {
  const std::int64_t block_size = cache_.block_size();
  std::size_t found = 0;
  if (sequence.hashes.active()) {
    const auto hashes = sequence.hashes.first((sequence.length() - 1) / block_size, sequence, block_size);
    while (found < hashes.size() && full_[static_cast<std::size_t>(sequence.blocks[found])] == hashes[found]) ++found;
  }
  const auto held = static_cast<std::int64_t>(found);
  const double cost = prompt_cost(sequence.length() - held * block_size);
  if (earnings_.left() < std::min(cost, DraftBudget::kMost)) return false;
  earnings_.spend(cost);
  sequence.draft_budget.grant(first_guesses(earnings_.left()));
  auto shadow = std::make_shared<DraftShadow>();
  Sequence& own = shadow->sequence;
  own.id = sequence.id;
  own.prompt_length = sequence.prompt_length;
  own.params = draft_params(sequence.params);
  own.seat = sequence.seat;
  own.computed = held * block_size;
  own.tokens.reserve(sequence.tokens.capacity());
  own.blocks.reserve(sequence.blocks.capacity());
  if (found > 0) cache_.seat_blocks(own.seat, std::span(sequence.blocks).first(found));
  shadow->paid = sequence.length();
  shadow->marked = held;
  sequence.shadow = std::move(shadow);
  return true;
}

// What the sequence has now takes the place of guesses that were wrong; gives how many were right.
std::int64_t DraftModel::learn_tokens(const Sequence& sequence, DraftShadow& shadow) const {
  Sequence& own = shadow.sequence;
  const auto from = static_cast<std::size_t>(shadow.known);
  std::size_t same = from;
  while (same < std::min(own.tokens.size(), sequence.tokens.size()) && own.tokens[same] == sequence.tokens[same])
    ++same;
  if (same < own.tokens.size()) own.computed = std::min(own.computed, static_cast<std::int64_t>(same));
  own.tokens.resize(same);
  own.tokens.insert(own.tokens.end(), sequence.tokens.begin() + static_cast<std::ptrdiff_t>(same),
                    sequence.tokens.end());
  shadow.is_foreign =
      shadow.is_foreign || std::any_of(own.tokens.begin() + static_cast<std::ptrdiff_t>(from), own.tokens.end(),
                                       [&](std::int32_t id) { return id >= draft_vocab_; });
  shadow.known = sequence.length();
  return static_cast<std::int64_t>(same - from);
}

// The shadow of a sequence that some of its tokens are computed of now; null: none are.
DraftShadow* DraftModel::follow(DraftWish& wish) {
  Sequence& sequence = *wish.sequence;
  if (wish.draws) earnings_.earn(sequence.shadow == nullptr ? 0 : learn_tokens(sequence, *sequence.shadow));
  if (!sequence.images.empty() || sequence.length() >= max_positions_) return nullptr;
  if (wish.draws && wish.most == 0) return nullptr;
  if (sequence.shadow == nullptr) {
    if (!enters(sequence)) return nullptr;
    (void)learn_tokens(sequence, *sequence.shadow);
  }
  DraftShadow& shadow = *sequence.shadow;
  if (shadow.is_foreign) return nullptr;
  wish.most = std::min(wish.most, max_positions_ - sequence.length());
  std::int64_t reach = sequence.computed;
  if (wish.draws) {
    // What is guessed must have blocks, in which the large model will check it.
    if (!scheduler_.reserve(sequence, sequence.length() + wish.most)) {
      wish.most = std::min(wish.most,
                           static_cast<std::int64_t>(sequence.blocks.size()) * cache_.block_size() - sequence.length());
    }
    if (wish.most <= 0) return nullptr;
    reach = sequence.length() + wish.most;
  }
  const auto blocks = static_cast<std::size_t>((reach + cache_.block_size() - 1) / cache_.block_size());
  auto& own = shadow.sequence.blocks;
  for (std::size_t b = own.size(); b < blocks; ++b) own.push_back(sequence.blocks[b]);
  return &shadow;
}

// Tokens that they lack, up to the last one, behind which the first guess is drawn.
void DraftModel::catch_up(std::int64_t running) {
  std::int64_t budget = options_.max_num_batched_tokens;
  for (Follower& follower : followers_) {
    Sequence& own = follower.shadow->sequence;
    const std::int64_t end = follower.wish.draws ? own.length() : follower.wish.sequence->computed;
    const std::int64_t count = std::min(end - own.computed, budget);
    if (count <= 0) continue;
    budget -= count;
    const std::int64_t until = own.computed + count;
    follower.wish.sequence->draft_budget.spend(prompt_cost(until - 1 - std::max(follower.shadow->paid, own.computed)));
    follower.shadow->paid = std::max(follower.shadow->paid, until);
    add(follower, count, follower.wish.draws && until == end);
  }
  run(running);
}

void DraftModel::add(Follower& follower, std::int64_t count, bool draws) {
  Sequence& own = follower.shadow->sequence;
  const std::int64_t block_size = cache_.block_size();
  for (std::int64_t b = own.computed / block_size; b * block_size < own.computed + count; ++b) {
    full_[static_cast<std::size_t>(own.blocks[static_cast<std::size_t>(b)])].reset();
  }
  batch_.push_back({&own, own.computed, count, draws, 0});
  own.computed += count;
  if (draws) drawing_.push_back(&follower);
}

// Computes the batch, and takes what it draws for guesses. Everyone waits for it, for the sake of those who draw.
void DraftModel::run(std::int64_t running) {
  if (batch_.empty()) return;
  const std::vector<SampledToken>& drawn = runner_->run(batch_);
  for (const ScheduledSequence& part : batch_) computed_tokens_ += part.count;
  const double all = options_.step_cost * static_cast<double>(running);
  std::size_t row = 0;
  for (Follower* follower : drawing_) {
    const SampledToken& token = drawn[row++];
    Sequence& sequence = *follower->wish.sequence;
    sequence.draft_budget.spend(all / static_cast<double>(drawing_.size()));
    earnings_.spend(all / static_cast<double>(drawing_.size()) + cost_of_checking(running));
    if (!std::isfinite(token.logit_sum) || token.id < 0 || token.id >= vocab_) {
      follower->wish.most = 0;
      continue;
    }
    sequence.drafts.push_back(token.id);
    follower->shadow->sequence.tokens.push_back(token.id);
  }
  batch_.clear();
  drawing_.clear();
}

void DraftModel::mark_full(Follower& follower) {
  Sequence& sequence = *follower.wish.sequence;
  if (!sequence.hashes.active()) return;
  DraftShadow& shadow = *follower.shadow;
  const std::int64_t full = std::min(shadow.sequence.computed, shadow.known) / cache_.block_size();
  if (full <= shadow.marked) return;
  const auto hashes = sequence.hashes.first(full, sequence, cache_.block_size());
  for (auto b = static_cast<std::size_t>(shadow.marked); b < hashes.size(); ++b) {
    full_[static_cast<std::size_t>(sequence.blocks[b])] = hashes[b];
  }
  shadow.marked = full;
}

void DraftModel::propose(std::span<const DraftWish> wishes, std::int64_t running) {
  const accel::TraceSpan span(trace_, "guess tokens");
  followers_.clear();
  for (DraftWish wish : wishes) {
    if (DraftShadow* const shadow = follow(wish)) followers_.push_back({wish, shadow});
  }
  catch_up(running);
  const auto goes_on = [](const Follower& follower) {
    const auto guessed = static_cast<std::int64_t>(follower.wish.sequence->drafts.size());
    return guessed > 0 && guessed < follower.wish.most;
  };
  while (std::any_of(followers_.begin(), followers_.end(), goes_on)) {
    for (Follower& follower : followers_) {
      if (goes_on(follower)) add(follower, 1, true);
    }
    run(running);
  }
  for (Follower& follower : followers_) mark_full(follower);
}

}  // namespace tern::engine
