// A bound on memory that many requests take bit by bit.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace tern::server {

// Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t most) : most_(most) {}
  // False: that would be more than there is, and nothing is taken.
  [[nodiscard]] bool take(std::size_t bytes) {
    std::size_t taken = taken_;
    do {
      if (bytes > most_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    return true;
  }
  void give(std::size_t bytes) { taken_ -= bytes; }
  [[nodiscard]] std::size_t left() const { return most_ - taken_; }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> taken_{0};  // never more than most_
};

// What one request has taken; its end gives it back. One thread at a time.
class ByteShare {
 public:
  explicit ByteShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ~ByteShare() { budget_->give(taken_); }
  ByteShare(const ByteShare&) = delete;
  ByteShare& operator=(const ByteShare&) = delete;
  [[nodiscard]] bool take(std::size_t bytes) {
    if (!budget_->take(bytes)) return false;
    taken_ += bytes;
    return true;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;
  std::size_t taken_ = 0;
};

}  // namespace tern::server
