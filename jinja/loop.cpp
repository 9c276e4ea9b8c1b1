#include "jinja/loop.h"

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tern::jinja {
namespace {

unsigned depth_over(const Values& items) {
  unsigned below = 0;
  for (const Value& item : items) below = std::max(below, item.depth());
  return below + 1;
}

}  // namespace

Loop::Loop(Values items) : Object(depth_over(items)), items_(std::move(items)) {}

bool Loop::pull(Value& out) {
  if (ahead_) {
    if (ahead_at_ >= ahead_->size()) return false;
    out = (*ahead_)[ahead_at_++];
    return true;
  }
  while (at_ < items_.size()) {
    const Value& item = items_[at_++];
    if (test_ && !test_(item)) continue;
    out = item;
    return true;
  }
  return false;
}

bool Loop::advance(Value& out) {
  if (after_) {
    out = std::move(*after_);
    after_.reset();
  } else if (!pull(out)) {
    return false;
  }
  ++index0_;
  before_ = std::move(current_);
  current_ = out;
  return true;
}

void Loop::finish() {
  ended_ = true;
  test_ = nullptr;
}

const Value* Loop::peek() {
  if (after_) return &*after_;
  Value next;
  if (ended_ || !pull(next)) return nullptr;
  after_ = std::move(next);
  return &*after_;
}

std::int64_t Loop::count() {
  if (length_) return *length_;
  if (!test_) {
    length_ = static_cast<std::int64_t>(items_.size());
    return *length_;
  }
  Values rest;
  for (Value item; pull(item);) rest.push_back(item);
  length_ = static_cast<std::int64_t>(rest.size()) + index0_ + 1 + (after_ ? 1 : 0);
  ahead_ = std::move(rest);
  ahead_at_ = 0;
  return *length_;
}

std::string Loop::repr() const { throw Problem{"a value that can be printed", "the loop itself"}; }

bool Loop::attribute(Evaluator&, std::string_view name, Value& out) {
  if (name == "index") return out = Value(index0_ + 1), true;
  if (name == "index0") return out = Value(index0_), true;
  if (name == "first") return out = Value(index0_ == 0), true;
  if (name == "last") return out = Value(peek() == nullptr), true;
  if (name == "length") return out = Value(count()), true;
  if (name == "revindex") return out = Value(count() - index0_), true;
  if (name == "revindex0") return out = Value(count() - index0_ - 1), true;
  if (name == "previtem") {
    out = index0_ == 0 || !before_ ? Value::undefined("previtem", {}, "there is no previous item") : *before_;
    return true;
  }
  if (name == "nextitem") {
    const Value* next = peek();
    out = next ? *next : Value::undefined("nextitem", {}, "there is no next item");
    return true;
  }
  for (const std::string_view unused : {"cycle", "changed", "depth", "depth0"}) {
    if (name == unused) throw Problem{"a part of `loop` that chat templates use", cat("`loop.", name, "`")};
  }
  return false;
}

}  // namespace tern::jinja
