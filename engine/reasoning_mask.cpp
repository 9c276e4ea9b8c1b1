#include "engine/reasoning_mask.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/mask_words.h"

namespace tern::engine {

namespace {

// How much of a marker the last tokens are.
class MarkerMatch {
 public:
  explicit MarkerMatch(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  // True where the token ends the marker.
  bool push(std::int32_t token) {
    last_.push_back(token);
    if (last_.size() > ids_.size()) last_.erase(last_.begin());
    while (!std::equal(last_.begin(), last_.end(), ids_.begin())) last_.erase(last_.begin());
    if (last_.size() < ids_.size()) return false;
    last_.clear();
    return true;
  }
  [[nodiscard]] std::int32_t next() const { return ids_[last_.size()]; }

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> last_;  // a prefix of ids_, shorter than it
};

class AfterReasoning final : public TokenMask {
 public:
  AfterReasoning(std::shared_ptr<TokenMask> mask, Reasoning reasoning)
      : mask_(std::move(mask)), reasoning_(std::move(reasoning)), end_(reasoning_.end_ids) {}

  void fill(std::span<std::uint32_t> words) override {
    if (closed_) {
      mask_->fill(words);
      return;
    }
    allow_all(words, reasoning_.vocab_size);
    for (const std::int32_t token : reasoning_.end_tokens) {
      forbid(words, token);
    }
  }
  void accept(std::int32_t token) override {
    if (closed_) {
      mask_->accept(token);
    } else {
      closed_ = end_.push(token);
    }
  }
  [[nodiscard]] bool complete() const override { return closed_ && mask_->complete(); }

 private:
  std::shared_ptr<TokenMask> mask_;
  Reasoning reasoning_;
  MarkerMatch end_;
  bool closed_ = false;
};

class ThinkingBudget final : public TokenMask {
 public:
  ThinkingBudget(std::shared_ptr<TokenMask> mask, Reasoning reasoning, std::int64_t budget)
      : mask_(std::move(mask)),
        reasoning_(std::move(reasoning)),
        begin_(reasoning_.begin_ids),
        end_(reasoning_.end_ids),
        left_(budget),
        open_(reasoning_.begin_ids.empty()) {}

  void fill(std::span<std::uint32_t> words) override {
    if (open_ && left_ <= 0) {
      const std::int32_t token = end_.next();
      std::fill(words.begin(), words.end(), 0U);
      words[static_cast<std::size_t>(token) / 32] = 1U << (token % 32);
    } else if (mask_) {
      mask_->fill(words);
    } else {
      allow_all(words, reasoning_.vocab_size);
    }
  }
  void accept(std::int32_t token) override {
    if (mask_) mask_->accept(token);
    if (open_) {
      left_ -= 1;
      open_ = !end_.push(token);
    } else if (!begun_ && !reasoning_.begin_ids.empty()) {
      open_ = begun_ = begin_.push(token);
    }
  }
  [[nodiscard]] bool complete() const override { return !(open_ && left_ <= 0) && mask_ && mask_->complete(); }

 private:
  std::shared_ptr<TokenMask> mask_;
  Reasoning reasoning_;
  MarkerMatch begin_, end_;
  std::int64_t left_;  // tokens
  bool open_;
  bool begun_ = false;  // an answer has one reasoning
};

}  // namespace

std::shared_ptr<TokenMask> after_reasoning(std::shared_ptr<TokenMask> mask, Reasoning reasoning) {
  return std::make_shared<AfterReasoning>(std::move(mask), std::move(reasoning));
}

std::shared_ptr<TokenMask> thinking_budget(std::shared_ptr<TokenMask> mask, Reasoning reasoning, std::int64_t budget) {
  return std::make_shared<ThinkingBudget>(std::move(mask), std::move(reasoning), budget);
}

}  // namespace tern::engine
