// Finds markers in text that comes byte by byte, and holds back no more than what may be the beginning of one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::chat {

// No marker may be the beginning of another.
class MarkerScanner {
 public:
  explicit MarkerScanner(std::vector<std::string> markers) : markers_(std::move(markers)) {}

  // The marker that `c` ends, -1 where it ends none. What belongs to no marker goes to the end of `text`.
  [[nodiscard]] int push(char c, std::string& text);
  [[nodiscard]] std::string take() { return std::exchange(held_, {}); }  // what is held back
  [[nodiscard]] const std::string& held() const { return held_; }
  [[nodiscard]] std::uint64_t work() const { return work_; }  // markers looked at

 private:
  std::vector<std::string> markers_;
  std::string held_;
  std::uint64_t work_ = 0;
};

}  // namespace tern::chat
