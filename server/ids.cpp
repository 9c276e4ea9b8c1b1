#include "server/ids.h"

#include <chrono>
#include <random>

namespace tern::server {

std::string random_id(std::string_view prefix) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kLength = 24;
  thread_local std::random_device random;
  std::string id(prefix);
  for (int i = 0; i < kLength; ++i) id += kDigits[random() % kDigits.size()];
  return id;
}

std::int64_t unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace tern::server
