#include "chat/answer_formats/marker_scanner.h"

namespace tern::chat {

int MarkerScanner::push(char c, std::string& text) {
  held_ += c;
  while (!held_.empty()) {
    for (std::size_t i = 0; i < markers_.size(); ++i, ++work_) {
      if (!markers_[i].starts_with(held_)) continue;
      if (markers_[i].size() != held_.size()) return -1;
      held_.clear();
      return static_cast<int>(i);
    }
    text += held_.front();
    held_.erase(0, 1);
  }
  return -1;
}

}  // namespace tern::chat
