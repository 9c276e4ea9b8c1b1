// What stands behind the "?" of a request: mode=keep&clear_cache=true.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tern::server::rollout {

class Query {
 public:
  // Throws Failure (data) for a name that stands twice, and for "%" without two hexadecimal digits behind it.
  explicit Query(std::string_view query);
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;
  // Throws Failure (data) for a name that nobody read: it is none of this route's.
  void finish() const;

 private:
  std::map<std::string, std::string> values_;
  mutable std::set<std::string> read_;
};

}  // namespace tern::server::rollout
