// What /metrics tells, under vLLM's names, in Prometheus' text format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/async_llm_engine.h"

namespace tern::server {

// How one request went; times in seconds.
struct RequestTimes {
  std::string_view finished_reason;  // "stop", "length", "abort", "error"
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t generated_tokens = 0;
  double whole = 0;  // from its arrival to its end
  double from_first_to_last_token = 0;
  std::optional<double> queue;  // from its arrival to its first step; the others are of requests that had a token
  double from_first_step_to_first_token = 0;
};

// Any thread may call it.
class Metrics {
 public:
  // `cache`: how it is made, as the labels of vllm:cache_config_info.
  explicit Metrics(const std::string& model_name, std::map<std::string, std::string> cache = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void count_first_token(double seconds_since_arrival);
  void count_token(double seconds_since_last);
  void count_request(const RequestTimes& times);
  void count_response(std::string_view route, int status);
  // The page, with how the engine stands now. `max_loras`: adapters of a step; 0: requests choose none.
  [[nodiscard]] std::string page(const engine::EngineStats& stats, std::int64_t max_loras) const;

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace tern::server
