// Which tokens follow which words in some texts, and how often: a suffix tree, cut at a depth, that grows by a token of
// any of its texts at a time and gives the oldest text back (for SuffixDecoding, Oliaro et al., arXiv 2411.04975).
//
// A token costs O(depth): each of the last `depth` suffixes of its text goes one token down. A node is a run of tokens
// that every suffix passing it goes on with, so there are at most two nodes a token, whatever the depth. What a run
// says stands in the latest of the texts that pass it, which leaves last: with it the node is gone, so that nothing is
// pointed elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tern::engine {

class SuffixTree {
 public:
  // `depth`: tokens of words and what follows them, at least 1.
  explicit SuffixTree(std::int64_t depth);

  // A text without tokens; gives its number, which is above those of all texts before it.
  std::int64_t add();
  [[nodiscard]] bool has(std::int64_t text) const { return text >= first_ && text - first_ < num_texts(); }
  [[nodiscard]] std::int64_t num_texts() const { return static_cast<std::int64_t>(texts_.size()); }
  // Of a text that is there.
  void append(std::int64_t text, std::int32_t token);
  // There is one.
  void remove_oldest();

  // How often `words`, of at most `depth` tokens, stand in the texts.
  [[nodiscard]] std::int64_t count(std::span<const std::int32_t> words) const;

  struct Limits {
    std::int64_t most = 0;  // tokens
    double factor = 1;      // tokens for each of the words that were found
    double min_probability = 0;
  };
  struct Continuation {
    std::vector<std::int32_t> tokens;
    double score = 0;        // how many of them are right in the mean: the sum of their probabilities
    std::int64_t words = 0;  // that they follow

    [[nodiscard]] bool is_better_than(const Continuation& other) const {
      return std::pair(score, words) > std::pair(other.score, other.words);
    }
  };
  // How the last words of `text` go on: of the words of each length the most frequent next token, again and again, as
  // long as all of them together follow with `min_probability`, and of these the one with the highest score, the
  // longest words first. A probability is the share among the places of the words that go on.
  [[nodiscard]] Continuation likeliest(std::span<const std::int32_t> text, const Limits& limits);

  // That the tree takes, about.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  static constexpr std::int32_t kRoot = 0;
  static constexpr std::int32_t kNone = -1;

  struct Node {
    std::int64_t text = 0;    // of those that pass, the latest, where the run stands:
    std::int32_t begin = 0;   // at this token
    std::int32_t length = 0;  // so many tokens
    std::int32_t count = 0;   // suffixes that pass
    std::int32_t ends = 0;    // of them, those that end here: texts are still short, or the depth is reached
    std::int32_t parent = kNone;
    std::int32_t first_child = kNone;
    std::int32_t next = kNone;  // of the parent's children
    std::int32_t previous = kNone;
    std::int32_t best = kNone;  // the most frequent child, of equal ones the latest to become so; kNone: to be found
  };
  struct Text {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> ends;  // [depth] the node where the suffix from token i ends, at i % depth
  };
  struct Place {
    std::int32_t node = kNone;  // kNone: nowhere
    std::int32_t offset = 0;    // tokens of its run that were passed
  };

  [[nodiscard]] Node& node(std::int32_t id) { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Text& text_of(std::int64_t text) const { return texts_[static_cast<std::size_t>(text - first_)]; }
  [[nodiscard]] std::int32_t token_at(std::int32_t id, std::int32_t offset) const;
  [[nodiscard]] std::int32_t child(std::int32_t parent, std::int32_t token) const;
  [[nodiscard]] Place find(std::span<const std::int32_t> words) const;
  [[nodiscard]] std::int32_t best_child(std::int32_t parent);
  [[nodiscard]] Continuation follow(Place place, std::int64_t most, double min_probability);

  [[nodiscard]] std::int32_t make(const Node& made);
  void link(std::int32_t parent, std::int32_t id);
  void unlink(std::int32_t id);
  void replace(std::int32_t old, std::int32_t other);
  [[nodiscard]] std::int32_t split(std::int32_t id);
  void join_if_idle(std::int32_t id);
  [[nodiscard]] std::int32_t advance(std::int32_t id, std::int64_t text, std::int64_t at);
  void remove_suffix(const Text& text, std::int64_t start);

  std::int64_t depth_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> free_;
  std::unordered_map<std::uint64_t, std::int32_t> children_;  // by parent and the first token of the child
  std::deque<Text> texts_;
  std::int64_t first_ = 0;   // the number of the oldest text
  std::int64_t tokens_ = 0;  // of all texts
};

}  // namespace tern::engine
