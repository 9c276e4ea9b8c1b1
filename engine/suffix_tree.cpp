#include "engine/suffix_tree.h"

#include <algorithm>

namespace tern::engine {
namespace {

std::uint64_t key(std::int32_t parent, std::int32_t token) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) << 32 | static_cast<std::uint32_t>(token);
}

}  // namespace

SuffixTree::SuffixTree(std::int64_t depth) : depth_(depth), nodes_(1) {}

std::int64_t SuffixTree::add() {
  texts_.emplace_back().ends.assign(static_cast<std::size_t>(depth_), kRoot);
  return first_ + num_texts() - 1;
}

std::int32_t SuffixTree::token_at(std::int32_t id, std::int32_t offset) const {
  return text_of(node(id).text).tokens[static_cast<std::size_t>(node(id).begin + offset)];
}

std::int32_t SuffixTree::child(std::int32_t parent, std::int32_t token) const {
  const auto found = children_.find(key(parent, token));
  return found == children_.end() ? kNone : found->second;
}

std::int32_t SuffixTree::make(const Node& made) {
  if (free_.empty()) {
    nodes_.push_back(made);
    return static_cast<std::int32_t>(nodes_.size()) - 1;
  }
  const std::int32_t id = free_.back();
  free_.pop_back();
  node(id) = made;
  return id;
}

void SuffixTree::link(std::int32_t parent, std::int32_t id) {
  Node& one = node(id);
  Node& above = node(parent);
  one.parent = parent;
  one.previous = kNone;
  one.next = above.first_child;
  if (one.next != kNone) node(one.next).previous = id;
  if (above.first_child == kNone) above.best = id;
  above.first_child = id;
  children_[key(parent, token_at(id, 0))] = id;
}

void SuffixTree::unlink(std::int32_t id) {
  const Node& one = node(id);
  Node& above = node(one.parent);
  children_.erase(key(one.parent, token_at(id, 0)));
  (one.previous == kNone ? above.first_child : node(one.previous).next) = one.next;
  if (one.next != kNone) node(one.next).previous = one.previous;
  if (above.best == id) above.best = kNone;
}

// `other`, which nobody points at, takes the place of `old` below its parent; their first tokens are the same.
void SuffixTree::replace(std::int32_t old, std::int32_t other) {
  const Node& one = node(old);
  Node& another = node(other);
  Node& above = node(one.parent);
  another.parent = one.parent;
  another.previous = one.previous;
  another.next = one.next;
  (one.previous == kNone ? above.first_child : node(one.previous).next) = other;
  if (one.next != kNone) node(one.next).previous = other;
  if (above.best == old) above.best = other;
  children_[key(one.parent, token_at(other, 0))] = other;
}

// A node of the first token of its run, with the rest below it: where a suffix ends or turns off.
std::int32_t SuffixTree::split(std::int32_t id) {
  Node first;
  first.text = node(id).text;
  first.begin = node(id).begin;
  first.length = 1;
  first.count = node(id).count;
  const std::int32_t upper = make(first);
  replace(id, upper);
  ++node(id).begin;
  --node(id).length;
  link(upper, id);
  return upper;
}

// A node where nothing ends or turns off is part of the one below it. That one keeps its number, as suffixes may end
// there.
void SuffixTree::join_if_idle(std::int32_t id) {
  const Node& upper = node(id);
  if (id == kRoot || upper.ends > 0 || upper.first_child == kNone || node(upper.first_child).next != kNone) return;
  const std::int32_t below = upper.first_child;
  children_.erase(key(id, token_at(below, 0)));
  node(below).begin -= upper.length;
  node(below).length += upper.length;
  replace(id, below);
  free_.push_back(id);
}

// The suffix that ends at a node goes on with token `at` of its text; gives where it ends then.
std::int32_t SuffixTree::advance(std::int32_t id, std::int64_t text, std::int64_t at) {
  if (id != kRoot && node(id).count == 1) {  // nobody else comes this far: the run is its own
    ++node(id).length;
    return id;
  }
  const auto begin = static_cast<std::int32_t>(at);
  std::int32_t there = child(id, text_of(text).tokens[static_cast<std::size_t>(at)]);
  if (there == kNone) {
    Node fresh;
    fresh.text = text;
    fresh.begin = begin;
    fresh.length = 1;
    there = make(fresh);
    link(id, there);
  } else if (node(there).length > 1) {
    there = split(there);
  }
  Node& reached = node(there);
  ++reached.count;
  ++reached.ends;
  if (text >= reached.text) {
    reached.text = text;
    reached.begin = begin;
  }
  if (const std::int32_t best = node(id).best; best != kNone && reached.count >= node(best).count) {
    node(id).best = there;
  }
  if (id != kRoot) --node(id).ends;
  join_if_idle(id);
  return there;
}

void SuffixTree::append(std::int64_t text, std::int32_t token) {
  Text& one = texts_[static_cast<std::size_t>(text - first_)];
  const auto at = static_cast<std::int64_t>(one.tokens.size());
  one.tokens.push_back(token);
  ++tokens_;
  const auto end_of = [&](std::int64_t start) -> std::int32_t& {
    return one.ends[static_cast<std::size_t>(start % depth_)];
  };
  end_of(at) = kRoot;
  for (std::int64_t start = std::max<std::int64_t>(0, at + 1 - depth_); start <= at; ++start) {
    end_of(start) = advance(end_of(start), text, at);
  }
}

void SuffixTree::remove_suffix(const Text& text, std::int64_t start) {
  const std::int64_t length = std::min(depth_, static_cast<std::int64_t>(text.tokens.size()) - start);
  std::int32_t at = kRoot;
  for (std::int64_t passed = 0; passed < length; passed += node(at).length) {
    const std::int32_t above = at;
    at = child(above, text.tokens[static_cast<std::size_t>(start + passed)]);
    if (--node(at).count == 0) {
      unlink(at);
      free_.push_back(at);
      join_if_idle(above);
      return;
    }
    if (node(above).best == at) node(above).best = kNone;
  }
  --node(at).ends;
  join_if_idle(at);
}

void SuffixTree::remove_oldest() {
  const Text& text = texts_.front();
  const auto length = static_cast<std::int64_t>(text.tokens.size());
  for (std::int64_t start = 0; start < length; ++start) remove_suffix(text, start);
  tokens_ -= length;
  texts_.pop_front();
  ++first_;
}

SuffixTree::Place SuffixTree::find(std::span<const std::int32_t> words) const {
  Place place{kRoot, 0};
  for (const std::int32_t token : words) {
    if (place.offset == node(place.node).length) {
      place = {child(place.node, token), 1};
      if (place.node == kNone) return place;
    } else if (token_at(place.node, place.offset++) != token) {
      return {};
    }
  }
  return place;
}

std::int64_t SuffixTree::count(std::span<const std::int32_t> words) const {
  const Place place = find(words);
  if (place.node == kRoot) return tokens_;
  return place.node == kNone ? 0 : node(place.node).count;
}

std::int32_t SuffixTree::best_child(std::int32_t parent) {
  std::int32_t& best = node(parent).best;
  if (best != kNone) return best;
  for (std::int32_t id = node(parent).first_child; id != kNone; id = node(id).next) {
    if (best == kNone || node(id).count > node(best).count) best = id;
  }
  return best;
}

SuffixTree::Continuation SuffixTree::follow(Place place, std::int64_t most, double min_probability) {
  Continuation out;
  double probability = 1;
  while (static_cast<std::int64_t>(out.tokens.size()) < most) {
    if (place.offset == node(place.node).length) {
      const Node& here = node(place.node);
      const std::int32_t next = best_child(place.node);
      if (next == kNone) break;
      probability *= static_cast<double>(node(next).count) / static_cast<double>(here.count - here.ends);
      if (probability < min_probability) break;
      place = {next, 0};
    }
    out.tokens.push_back(token_at(place.node, place.offset++));
    out.score += probability;
  }
  return out;
}

SuffixTree::Continuation SuffixTree::likeliest(std::span<const std::int32_t> text, const Limits& limits) {
  Continuation best;
  const std::int64_t longest = std::min(depth_ - 1, static_cast<std::int64_t>(text.size()));
  for (std::int64_t words = 1; words <= longest; ++words) {
    const Place place = find(text.last(static_cast<std::size_t>(words)));
    if (place.node == kNone) break;
    // 1e-6: a factor like 0.3 times 10 is 3.
    const double allowed = static_cast<double>(words) * limits.factor + 1e-6;
    const auto most = static_cast<std::int64_t>(std::min(static_cast<double>(limits.most), allowed));
    Continuation one = follow(place, most, limits.min_probability);
    one.words = words;
    if (one.is_better_than(best)) best = std::move(one);
  }
  return best;
}

// An entry of a hash table takes a pointer, a hash bucket and the allocator's own bytes beside its key and value.
std::int64_t SuffixTree::bytes() const {
  constexpr auto kNode = static_cast<std::int64_t>(sizeof(Node) + sizeof(std::pair<std::uint64_t, std::int32_t>) + 24);
  const auto nodes = static_cast<std::int64_t>(nodes_.size() - free_.size()) - 1;
  const auto text = static_cast<std::int64_t>(sizeof(Text)) + depth_ * static_cast<std::int64_t>(sizeof(std::int32_t));
  return nodes * kNode + tokens_ * static_cast<std::int64_t>(sizeof(std::int32_t)) + num_texts() * text;
}

}  // namespace tern::engine
