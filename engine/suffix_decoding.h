// Guesses of the tokens that follow, by what mostly followed the same words in the request itself and in earlier
// answers (SuffixDecoding, Oliaro et al., arXiv 2411.04975; the names are vLLM's): for requests that resemble earlier
// ones, as agents' and rollouts' do.
//
// Answers of one cache_salt guess for requests of this salt alone: how fast an answer comes would else tell what
// another tenant was answered. Prompts guess for their own request only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/prefix_hash.h"
#include "engine/proposer.h"
#include "engine/suffix_tree.h"

namespace tern::engine {

class SuffixDecoding : public Proposer {
 public:
  // `options.suffix` is there.
  explicit SuffixDecoding(const SpeculativeOptions& options);

  void propose(std::span<const DraftWish> wishes, std::int64_t running) override;
  void finish(const Sequence& sequence) override;

  // Answers that guess for others, and the bytes that they take, about.
  [[nodiscard]] std::int64_t num_answers() const { return static_cast<std::int64_t>(order_.size()); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  // What requests of one salt share.
  struct Tenant {
    explicit Tenant(std::int64_t depth) : answers(depth) {}
    SuffixTree answers;
    // All that their guesses earned and cost: where these pay on the whole, a request begins with some more at once.
    DraftBudget earnings{DraftBudget::kMost};
  };
  struct Followed {
    Followed(std::int64_t depth, const BlockHash& root) : salt(root), own(depth) { (void)own.add(); }
    BlockHash salt;                     // what stands for the request's cache_salt, however long that is
    SuffixTree own;                     // of the request's tokens, all one text: some 180 bytes a token, while it runs
    std::int64_t known = 0;             // tokens of it that are in the trees
    std::vector<std::int32_t> guessed;  // behind them
    std::shared_ptr<Tenant> tenant;     // once its answer is among those; outlives what evicts it
    std::int64_t answer = 0;
  };

  void learn(const Sequence& sequence, Followed& followed, std::int64_t until);
  void learn_answer(const Sequence& sequence, Followed& followed, std::int64_t until);
  void evict();
  [[nodiscard]] Followed& follow(const Sequence& sequence);
  [[nodiscard]] Tenant* tenant_of(const Followed& followed);  // null: it has no answers
  [[nodiscard]] std::vector<std::int32_t> likeliest(const Sequence& sequence, Followed& followed, std::int64_t most);

  SpeculativeOptions options_;
  std::map<SequenceId, Followed> followed_;
  std::map<BlockHash, std::shared_ptr<Tenant>> tenants_;  // by salt, those who have answers
  std::deque<BlockHash> order_;                           // the salts of all answers, the oldest first
  std::int64_t bytes_ = 0;
};

}  // namespace tern::engine
