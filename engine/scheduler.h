// Which sequences take part in the next step, and with how many tokens: a pure state machine over the cache's blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/block_pool.h"
#include "engine/sequence.h"
#include "engine/state_snapshots.h"
#include "engine/swap_tier.h"

namespace tern::engine {

struct SchedulerOptions {
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 512;  // of one step; longer prompts are computed in chunks
  std::int64_t max_loras = 0;                 // adapters that the sequences of one step can have
};

// A sequence's part in one step: tokens [begin, begin + count) of it are computed.
struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool samples = false;     // its last token is computed: the next one is drawn
  std::int64_t drafts = 0;  // of `count`, the last ones: guesses, after each of which one is drawn too

  // Rows of logits that are drawn from.
  [[nodiscard]] std::int64_t rows() const { return samples ? 1 + drafts : 0; }
};
using Batch = std::vector<ScheduledSequence>;
// Tokens of prompts in a batch that isn't computed yet, where an answer goes on in it too; else 0.
[[nodiscard]] std::int64_t prompt_tokens_beside_answers(const Batch& batch);

class Scheduler {
 public:
  // `swap` and `states`, where there are any, outlive it.
  Scheduler(SchedulerOptions options, BlockPool& cache, SwapTier* swap = nullptr, StateSnapshots* states = nullptr);

  void add(std::unique_ptr<Sequence> sequence);
  [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }

  // Running sequences first, in order of priority (the lowest number first) and arrival, then waiting ones in this
  // order while tokens, seats and blocks last. Where a running one gets no block, the last of them in this order gives
  // its blocks up and is computed again later: in such a step nobody is admitted. Who is admitted gets blocks for all
  // tokens that it has, and leaves one for each sequence that runs already, so that it isn't thrown out again by their
  // next tokens. The first in line is never passed over. Guesses of a sequence (Sequence::drafts) are computed behind
  // its tokens while tokens and free blocks last. What must be computed in one step (RequestImages::spans) is: a
  // sequence takes fewer tokens, or sits a step out. A sequence with hashes begins behind the longest run of full
  // blocks that others computed of the same tokens: it holds them too. At least its last token is computed, as logits
  // come of one, and no image span is cut. Its own full blocks can be found from the step on that begins when they have
  // been computed: the first in line waits while one that runs and goes before it has still to compute the next block
  // that it would begin behind, so that nobody computes what somebody is computing, and equal prompts that come
  // together are computed once. That one's tokens come first anyway. Who runs has a seat of its own, from 1 to
  // max_num_seqs, and a slot for its adapter, which it may share: the first in line waits until there is one. With a
  // second tier, blocks that can be found are kept there when they're given out, and the run that a sequence begins
  // behind may lie in both: what it needs of the second comes to blocks of its own. Where something is behind that
  // tier, the blocks of a sequence that ends are kept too. Where layers keep states, a sequence begins behind the
  // longest such run that has a copy of them, and a step of it ends where one is to be taken: behind the last block of
  // its prompt that another can begin behind, and where the run of known blocks was longer than what it began behind.
  // Copies of the tier and of states are to be made before the batch is computed. The batch is valid until the next
  // call.
  [[nodiscard]] const Batch& schedule();
  // The step after the one that schedule() gave last, told while that one is computed: every sequence of it is taken to
  // get the token that it draws, and to go on. Null where somebody would be admitted or would have to give blocks up,
  // and behind a step that checks guesses.
  // The next schedule() gives this very batch where that is how it came, and else takes everything back first: whether
  // steps are prepared or not, the same ones come.
  [[nodiscard]] const Batch* prepare();
  // Whether schedule() last gave what had been prepared.
  [[nodiscard]] bool was_prepared() const { return was_prepared_; }

  // Blocks for the first `tokens` of a sequence that runs; false, and none, where too few are free. What had been
  // prepared is taken back. The second tier's copies are to be made before anything is written there.
  [[nodiscard]] bool reserve(Sequence& sequence, std::int64_t tokens);

  // Takes a sequence out, waiting or running, and frees its blocks; null where there is none of that id.
  [[nodiscard]] std::unique_ptr<Sequence> remove(SequenceId id);
  // Takes finished sequences out and frees their blocks. Nobody finds those of a failed one.
  [[nodiscard]] std::vector<std::unique_ptr<Sequence>> collect_finished();
  // Who runs gives its blocks up, and is computed again from its first token.
  void preempt_all();
  // Nobody finds what has been computed so far, nor what those who run add to it.
  void reset_prefix_cache();

  // Tokens of prompts that a step may compute where somebody's answer goes on in it; else, and at first, as many as fit
  // a step. An image that must be computed in one step is, if it's the first of them. What is prepared already stays.
  void limit_prompts(std::int64_t tokens) { prompt_tokens_ = tokens; }
  // The limit that the batch was made under.
  [[nodiscard]] std::int64_t prompt_limit() const { return batch_limit_; }

  [[nodiscard]] AdapterSlots& adapters() { return adapters_; }
  [[nodiscard]] const AdapterSlots& adapters() const { return adapters_; }
  [[nodiscard]] std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  [[nodiscard]] std::set<std::string> running_adapters() const;  // their names
  [[nodiscard]] std::set<std::string> waiting_adapters() const;
  [[nodiscard]] std::int64_t num_preemptions() const { return preemptions_; }
  // Tokens of sequences with hashes when they were first admitted, and those of them that were found in the cache;
  // those that weren't, where there is a second tier to look in, and those of them that were found there.
  struct PrefixQueries {
    std::int64_t tokens = 0;
    std::int64_t hits = 0;
    std::int64_t swap_tokens = 0;
    std::int64_t swap_hits = 0;
  };
  [[nodiscard]] const PrefixQueries& prefix_queries() const { return queries_; }

 private:
  // A prepared batch, and how the sequences that ran must stand when it comes to be computed.
  struct Assumed {
    const Sequence* sequence = nullptr;
    std::int64_t computed = 0;
    std::int64_t length = 0;
  };
  struct Prepared {
    Batch batch;
    std::vector<std::int64_t> taken;  // blocks, by entry of the batch
    std::vector<Assumed> assumed;     // by running sequence
    std::int64_t budget = 0;          // tokens that it leaves for others
  };

  void schedule_anew();
  void assume();
  [[nodiscard]] bool prepared_stands() const;
  void drop_prepared();
  void preempt_newest();
  void leave(Sequence& sequence, bool ends);
  void keep_what_ends(Sequence& sequence);
  void forget(Sequence& sequence);
  void publish(Sequence& sequence);
  void keep_given_out();
  [[nodiscard]] std::size_t before_spans(const Sequence& sequence, std::size_t blocks) const;
  [[nodiscard]] bool fits(const Sequence& sequence, std::span<const BlockHash> prefix) const;
  [[nodiscard]] std::span<const BlockHash> hold_prefix(Sequence& sequence);
  void let_go(std::span<const BlockHash> prefix);
  std::int64_t take_prefix(Sequence& sequence, std::span<const BlockHash> prefix);
  [[nodiscard]] std::span<const BlockHash> known_prefix(Sequence& sequence) const;
  [[nodiscard]] std::span<const BlockHash> with_states(std::span<const BlockHash> prefix) const;
  [[nodiscard]] std::span<const BlockHash> longest_prefix(Sequence& sequence) const {
    return with_states(known_prefix(sequence));
  }
  void keep_states(Sequence& sequence);
  void begin_states(Sequence& sequence, std::span<const BlockHash> prefix, std::size_t known);
  [[nodiscard]] std::span<const BlockHash> sought(Sequence& sequence) const;
  [[nodiscard]] std::size_t num_found(std::span<const BlockHash> hashes) const;
  [[nodiscard]] bool is_being_computed(Sequence& sequence, std::size_t found) const;
  [[nodiscard]] bool can_admit() const;
  [[nodiscard]] Sequence* admit_next();  // null: nobody

  SchedulerOptions options_;
  BlockPool& cache_;
  SwapTier* swap_;          // null: there is none
  StateSnapshots* states_;  // null: layers keep none, or nobody finds prefixes
  AdapterSlots adapters_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // in order of priority and arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // in this order too
  std::vector<std::int32_t> free_seats_;            // taken from the end
  std::int64_t prompt_tokens_;
  std::int64_t batch_limit_ = 0, prepared_limit_ = 0;
  Batch batch_;
  Prepared prepared_;
  bool was_prepared_ = false;
  std::int64_t preemptions_ = 0;
  std::int64_t arrivals_ = 0;
  PrefixQueries queries_;
};

}  // namespace tern::engine
