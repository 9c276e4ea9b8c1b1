// Which sequences take part in the next step, and with how many tokens: a pure state machine over the cache's blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/block_pool.h"
#include "engine/sequence.h"

namespace tern::engine {

struct SchedulerOptions {
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 512;  // of one step; longer prompts are computed in chunks
};

// A sequence's part in one step: tokens [begin, begin + count) of it are computed.
struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool samples = false;  // its last token is computed: the next one is drawn
};

class Scheduler {
 public:
  Scheduler(SchedulerOptions options, BlockPool& cache) : options_(options), cache_(cache) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
  [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }

  // Running sequences first, in order of arrival, then waiting ones while tokens, seats and blocks last. Where a
  // running one gets no block, the newest running sequence gives its blocks up and is computed again later: in such a
  // step nobody is admitted. Who is admitted gets blocks for all tokens that it has, and leaves one for each sequence
  // that runs already, so that it isn't thrown out again by their next tokens. The first in line is never passed over.
  [[nodiscard]] std::vector<ScheduledSequence> schedule();
  // Takes a sequence out, waiting or running, and frees its blocks; null where there is none of that id.
  [[nodiscard]] std::unique_ptr<Sequence> remove(SequenceId id);
  // Takes finished sequences out and frees their blocks.
  [[nodiscard]] std::vector<std::unique_ptr<Sequence>> collect_finished();

  [[nodiscard]] std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  [[nodiscard]] std::int64_t num_preemptions() const { return preemptions_; }

 private:
  void preempt_newest();
  [[nodiscard]] bool admit_next();

  SchedulerOptions options_;
  BlockPool& cache_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::int64_t preemptions_ = 0;
};

}  // namespace tern::engine
