#include "engine/suffix_decoding.h"

#include <algorithm>
#include <utility>

namespace tern::engine {

SuffixDecoding::SuffixDecoding(const SpeculativeOptions& options) : options_(options) {}

// The oldest one leaves, whoever asked for it: each tenant's oldest is the oldest of its salt in `order_`.
void SuffixDecoding::evict() {
  const auto entry = tenants_.find(order_.front());
  order_.pop_front();
  SuffixTree& answers = entry->second->answers;
  bytes_ -= answers.bytes();
  answers.remove_oldest();
  bytes_ += answers.bytes();
  if (answers.num_texts() == 0) tenants_.erase(entry);
}

SuffixDecoding::Followed& SuffixDecoding::follow(const Sequence& sequence) {
  const auto entry = followed_.find(sequence.id);
  if (entry != followed_.end()) return entry->second;
  return followed_.try_emplace(sequence.id, options_.suffix->max_tree_depth, prefix_root(sequence.cache_salt, ""))
      .first->second;
}

SuffixDecoding::Tenant* SuffixDecoding::tenant_of(const Followed& followed) {
  const auto entry = tenants_.find(followed.salt);
  return entry == tenants_.end() ? nullptr : entry->second.get();
}

// From its second token on, as nothing follows a single one.
void SuffixDecoding::learn_answer(const Sequence& sequence, Followed& followed, std::int64_t until) {
  const SuffixOptions& suffix = *options_.suffix;
  if (suffix.max_cached_requests == 0 || until < sequence.prompt_length + 2) return;
  std::int64_t from = std::max(followed.known, sequence.prompt_length);
  if (followed.tenant == nullptr) {
    auto& tenant = tenants_[followed.salt];
    if (tenant == nullptr) tenant = std::make_shared<Tenant>(suffix.max_tree_depth);
    followed.tenant = tenant;
    bytes_ -= tenant->answers.bytes();
    followed.answer = tenant->answers.add();
    bytes_ += tenant->answers.bytes();
    order_.push_back(followed.salt);
    from = sequence.prompt_length;
  }
  SuffixTree& answers = followed.tenant->answers;
  if (!answers.has(followed.answer)) return;
  bytes_ -= answers.bytes();
  for (std::int64_t i = from; i < until; ++i) {
    answers.append(followed.answer, sequence.tokens[static_cast<std::size_t>(i)]);
  }
  bytes_ += answers.bytes();
  while (num_answers() > suffix.max_cached_requests || (bytes_ > suffix.max_bytes && num_answers() > 0)) evict();
}

void SuffixDecoding::learn(const Sequence& sequence, Followed& followed, std::int64_t until) {
  if (until <= followed.known) return;
  learn_answer(sequence, followed, until);
  for (; followed.known < until; ++followed.known) {
    followed.own.append(0, sequence.tokens[static_cast<std::size_t>(followed.known)]);
  }
}

// By the request's own text or the answers before it.
std::vector<std::int32_t> SuffixDecoding::likeliest(const Sequence& sequence, Followed& followed, std::int64_t most) {
  const SuffixOptions& suffix = *options_.suffix;
  const SuffixTree::Limits limits = {most, suffix.max_spec_factor, suffix.min_token_prob};
  SuffixTree::Continuation best = followed.own.likeliest(sequence.tokens, limits);
  if (Tenant* const tenant = tenant_of(followed)) {
    SuffixTree::Continuation other = tenant->answers.likeliest(sequence.tokens, limits);
    if (other.is_better_than(best)) best = std::move(other);
  }
  return std::move(best.tokens);
}

void SuffixDecoding::propose(std::span<const DraftWish> wishes, std::int64_t running) {
  for (const DraftWish& wish : wishes) {
    Sequence& sequence = *wish.sequence;
    const bool is_new = !followed_.contains(sequence.id);
    Followed& followed = follow(sequence);
    Tenant* tenant = tenant_of(followed);
    if (is_new && tenant != nullptr) sequence.draft_budget.grant(first_guesses(tenant->earnings.left()));
    const std::int64_t known = followed.known;
    learn(sequence, followed, wish.draws ? sequence.length() : sequence.computed);
    if (!wish.draws) continue;
    const auto drawn = std::span<const std::int32_t>(sequence.tokens).subspan(static_cast<std::size_t>(known));
    const auto right = std::ranges::mismatch(followed.guessed, drawn).in1 - followed.guessed.begin();
    followed.guessed.clear();
    if (wish.most > 0) followed.guessed = likeliest(sequence, followed, wish.most);
    sequence.drafts.insert(sequence.drafts.end(), followed.guessed.begin(), followed.guessed.end());
    tenant = tenant_of(followed);
    if (tenant == nullptr) continue;
    tenant->earnings.earn(right);
    tenant->earnings.spend(static_cast<double>(followed.guessed.size()) * cost_of_checking(running));
  }
}

void SuffixDecoding::finish(const Sequence& sequence) {
  learn_answer(sequence, follow(sequence), sequence.length());
  followed_.erase(sequence.id);
}

}  // namespace tern::engine
